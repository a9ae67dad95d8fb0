"""What RESAMPLE is found in the log for, and what is left to Spark SQL: other queries' rows, both kinds of time, any type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

from penstock.clock import SECOND
from penstock.database.plan_graph import plan_graph
from tests.operators.resample.streams import ASKED, OPTIONS, WINDOW, Row, World, at, heard, in_order
from tests.spark.asking import ask, rows_of
from tests.sql.test_resample import WAYS, rounded
from tests.support.pipe import Pipe


def test_explain_says_how_it_is_answered_and_why_not(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes)
    world.execute(f"CREATE QUERY q AS {ASKED} {WINDOW}")
    world.push(0, 30)
    lines = [row[0] for row in ask(world.pipe.db, "EXPLAIN ANALYZE q")]
    assert lines[0] == 'values of "v" at the readings of "times", found in the log when asked'
    assert '  same: id = id of "v"' in lines and "    conditions: ppm <> 2.5" in lines
    assert any(line.startswith(f"rows inside the window: {len(world.answer())}, found in") for line in lines)
    facts = world.pipe.db.query("q")
    assert facts["runs"] == "log, when asked" and facts["reason"] is None and facts["state"] == "RUNNING"
    assert facts["window"] == "BEGIN (NOW - 40s) END (NOW)"
    boxes = plan_graph(world.pipe.db.definition("q"), world.pipe.db.catalog.state).boxes
    assert [box.title for box in boxes] == ["times", "v", "resample", "q"]
    sampled = "SELECT t.n, RESAMPLE(v.ppm, 3 SECONDS) AS p FROM times t, v"
    uncovered = {
        f"{sampled} WHERE v.id = t.id AND v.ppm > t.n": "RESAMPLE with a condition between both streams that is no equality",
        f"{sampled} WHERE t.ts < NOW()": "NOW() in an expression",
        sampled.replace("SELECT", "SELECT DISTINCT"): "RESAMPLE beside DISTINCT",
        f"SELECT MAX(p) FROM ({sampled})": "RESAMPLE inside of another question",
    }
    for asked, reason in uncovered.items():
        assert ask(world.pipe.db, f"EXPLAIN {asked}")[0] == (f"Spark SQL: {reason} runs as Spark SQL",)
    lines = [row[0] for row in ask(world.pipe.db, f"EXPLAIN ANALYZE {ASKED} {WINDOW}")]
    assert f"rows: {len(world.answer())}" in lines and not any("Spark" in line for line in lines)


def test_rows_of_other_queries_are_resampled_one_cycle_later(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes, 3)
    world.execute(
        "CREATE QUERY counted AS SELECT id AS sensor, ppm * 1 AS level FROM v WHERE ppm <> 2.5 BEGIN (NOW - 1 SECOND)"
    )
    world.execute("CREATE QUERY ticks AS SELECT n + 0 AS number, id FROM times WHERE n >= 0 BEGIN (NOW - 1 SECOND)")
    asked = ASKED.replace("v.ppm <> 2.5", "v.ppm IS NOT NULL").replace("v.ppm", "c.level").replace("v.id", "c.sensor")
    asked = asked.replace("t.n,", "t.number,").replace("times t, v", "ticks t, counted c")
    world.execute(f"CREATE QUERY q AS {asked} {WINDOW}")
    assert world.pipe.db.query("q")["runs"] == "log, when asked"
    lines = [row[0] for row in ask(world.pipe.db, "EXPLAIN q")]
    assert '  times: answers of query "ticks", one cycle later' in lines
    changes = world.pipe.db.subscribe("q", changes=True)
    kept: Counter[Row] = Counter()
    for step in range(4):
        world.push(step * 10 - 15, step * 10 + 20)
        assert world.answer() == in_order(ask(world.pipe.db, f"{asked} {WINDOW}")) != world.expected()
        world.pipe.clock.advance(2 * SECOND)
        world.pipe.engine.cycle()
        assert world.answer() == in_order(ask(world.pipe.db, f"{asked} {WINDOW}")) == world.expected()
        for operation, *values in heard(changes):
            kept[rounded(tuple(values))] += 1 if operation == "+" else -1
        assert +kept == Counter(world.expected())
        if step == 2:
            world.pipe.restart()
            changes, kept = world.pipe.db.subscribe("q", changes=True), Counter()
            assert world.answer() == world.expected()


def test_streams_in_transaction_time_are_resampled_at_their_arrival(pipe: Pipe) -> None:
    for table in ("a", "b"):
        pipe.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (x DOUBLE))")
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
    asked = "SELECT b.x, RESAMPLE(a.x, 3 SECONDS) AS last, RESAMPLE(a.x, 3 SECONDS, MEAN) AS mean FROM b, a"
    pipe.db.execute(f"CREATE QUERY q AS {asked} BEGIN (NOW - 10 SECONDS) END (NOW)")
    pipe.engine.drain()
    changes = pipe.db.subscribe("q", changes=True)
    assert heard(changes) == []
    story = [("a", 1.0), ("b", 0.0), ("a", 5.0), ("b", 1.0)]
    for table, x in story:
        pipe.clock.advance(2 * SECOND)
        pipe.db.push(table, [{"id": 1, "x": x}])
        pipe.engine.drain()
    rows = [(0.0, 1.0, 3.0), (1.0, 5.0, 5.0)]
    assert rows_of(pipe.db.invoke("q").table) == rows
    pipe.clock.advance(7 * SECOND)
    pipe.engine.cycle()
    assert rows_of(pipe.db.invoke("q").table) == rows[1:]  # time alone took the first one
    assert heard(changes) == [
        ("+", 0.0, 1.0, 1.0),
        ("-", 0.0, 1.0, 1.0),
        ("+", *rows[0]),
        ("+", *rows[1]),
        ("-", *rows[0]),
    ]


def test_values_of_any_type_at_keys_of_any_type(pipe: Pipe) -> None:
    fields = (
        "name TEXT, amount DECIMAL(10, 2), whole INT, ok BOOLEAN, tags ARRAY<TEXT>, spot STRUCT<x: DOUBLE, y: DOUBLE>"
    )
    pipe.db.execute(f"CREATE TABLE marks (mark TEXT PRIMARY KEY, tick STREAM (amount DECIMAL(12, 3))) {OPTIONS}")
    pipe.db.execute(f"CREATE TABLE odd (id BIGINT PRIMARY KEY, place TEXT, r STREAM ({fields})) {OPTIONS}")
    pipe.db.execute("INSERT INTO marks VALUES ('a', NULL), ('b', NULL)")
    pipe.db.execute("INSERT INTO odd VALUES (1, 'a', NULL), (2, 'b', NULL)")
    columns = ["name", "amount", "whole", "ok", "tags", "spot", "ts", "id", "place"]
    previous = ", ".join(f"RESAMPLE(o.{c}, 5 SECONDS) AS {c}" for c in columns)
    numbers = ", ".join(
        f"RESAMPLE(o.{c}, 5 SECONDS, {way}) AS {c}_{way}" for c in ("amount", "whole", "id") for way in WAYS
    )
    asked = f"SELECT m.mark, {previous}, {numbers} FROM marks m, odd o WHERE o.place = m.mark"
    pipe.db.execute(f"CREATE QUERY q AS {asked} BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute(f"CREATE QUERY same AS {asked} AND o.amount = m.amount BEGIN (NOW - 1 HOUR) END (NOW)")
    spot = {"x": 1.0, "y": 2.0}
    first = {"name": "n", "amount": "1.50", "whole": 3, "ok": True, "tags": ["t"], "spot": spot}
    nothing = dict.fromkeys(first)
    odd = [
        {"id": 1, "ts": at(8), **first},
        {"id": 2, "ts": at(20), **nothing, "amount": "7.00", "whole": 1},
        {"id": 1, "ts": at(12), **nothing, "amount": "2.50", "whole": 5},
    ]
    marks = [{"mark": "a", "ts": at(10), "amount": "1.500"}, {"mark": "b", "ts": at(20), "amount": "1"}]
    for table, rows in {"odd": odd, "marks": marks}.items():
        receipt = pipe.db.push(table, rows)
        assert receipt.accepted == len(rows), receipt
    pipe.engine.drain()
    one, other = pipe.db.invoke("q").table.to_pylist()
    assert {c: one[c] for c in first} == first | {"amount": Decimal("1.50")}
    assert (one["id"], one["place"], one["ts"]) == (1, "a", datetime.fromisoformat(at(8)))
    assert [one[f"{c}_linear"] for c in ("amount", "whole", "id")] == [2.0, 4.0, 1.0]
    assert [one[f"{c}_mean"] for c in ("amount", "whole", "id")] == [2.0, 4.0, 1.0]
    assert [other[c] for c in ("name", "amount", "tags", "spot")] == [None, Decimal("7.00"), None, None]
    assert [other[f"{c}_LINEAR".lower()] for c in ("amount", "whole")] == [7.0, 1.0]
    alike = pipe.db.invoke("same").table.to_pylist()
    assert [row["amount_mean"] for row in alike] == [1.5, None]
