"""SELECT DISTINCT as a standing query: groups of all that it asks for, in the cycle, at every committed cycle."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.sql.parse import parse_script
from penstock.sql.plan import AggregatePlan, JoinAggregatePlan, SparkPlan, plan_from_json
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import Select
from tests.support.examples import seeds
from tests.support.pipe import Pipe

Row = dict[str, Any]
Answer = list[tuple[Any, ...]]
SECOND = 1_000_000
VALID = "WITH (time = 'valid', out_of_order = 'accept')"
WINDOW = "BEGIN (NOW - 10 SECONDS) END (NOW)"
QUESTIONS = {
    "seen": f"SELECT DISTINCT place, value FROM probes {WINDOW}",
    "high": f"SELECT DISTINCT value * 2 AS twice, 7 AS seven, value * 2 AS again FROM probes WHERE value > 0 {WINDOW}",
    "top": f"SELECT DISTINCT value FROM probes {WINDOW} ORDER BY value DESC LIMIT 2",
    "grouped": f"SELECT place, value FROM probes GROUP BY place, value {WINDOW}",
    "counts": f"SELECT DISTINCT COUNT(value) AS n, MIN(value) AS low FROM probes GROUP BY place, id {WINDOW} ORDER BY n DESC",
    "owned": "SELECT DISTINCT m.owner, p.value FROM probes p JOIN mine m ON m.place = p.place " + WINDOW,
    "read": f"SELECT DISTINCT place FROM warm {WINDOW}",
}


def known(value: Any) -> Any:
    """NULL is one value, NaN one, and both zeros are one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def once(rows: Iterable[tuple[Any, ...]]) -> Answer:
    return sorted({tuple(known(v) for v in row) for row in rows}, key=repr)


def expected(rows: list[Row], warm: list[Row]) -> dict[str, Answer]:
    seen = once((r["place"], r["value"]) for r in rows)
    values = {known(r["value"]) for r in rows}
    order = sorted(values - {None, "NaN"}, reverse=True)
    # Backwards NULL is first, as everywhere, and NaN is above every number.
    top = [v for v in (None, "NaN") if v in values] + order
    twice = (r["value"] * 2 for r in rows if r["value"] is not None and (math.isnan(r["value"]) or r["value"] > 0))
    counted: dict[Any, list[Any]] = {}
    for row in rows:
        counted.setdefault((row["place"], row["id"]), []).append(row["value"])
    return {
        "seen": seen,
        "high": once((v, 7, v) for v in twice),
        "top": sorted(((v,) for v in top[:2]), key=repr),
        "grouped": seen,
        "counts": once((sum(v is not None for v in mine), _least(mine)) for mine in counted.values()),
        "owned": once(("me", r["value"]) for r in rows if r["place"] == "north"),
        "read": once((r["place"],) for r in warm),
    }


def _least(values: list[Any]) -> Any:
    numbers = [v for v in values if v is not None]
    return min(numbers, key=lambda v: (math.isnan(v), v)) if numbers else None


def answer(pipe: Pipe, name: str, as_of: int | None = None) -> Answer:
    table = pipe.db.standing.invoke(name, as_of).table
    found = [tuple(known(v) for v in row.values()) for row in table.to_pylist()]
    assert not any(str(v) == "-0.0" for row in table.to_pylist() for v in row.values()), name
    return sorted(found, key=repr)


@pytest.mark.parametrize("seed", seeds(2))
def test_each_row_comes_once_whatever_comes_late_and_whoever_restarts(seed: int, pipes: Callable[..., Pipe]) -> None:
    chance = random.Random(seed)
    pipe = pipes(cycles_keep=6)
    pipe.probes(VALID)
    pipe.db.execute("INSERT INTO probes VALUES (3, NULL, NULL), (4, 'north', NULL)")
    pipe.db.execute("CREATE TABLE mine (place TEXT PRIMARY KEY, owner TEXT)")
    pipe.db.execute("INSERT INTO mine VALUES ('north', 'me')")
    pipe.db.execute("CREATE QUERY warm AS SELECT place, value FROM probes WHERE value > 2")
    for name, question in QUESTIONS.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {question}")
        plan = plan_from_json(pipe.db.definition(name).plan)
        assert isinstance(plan, JoinAggregatePlan if name == "owned" else AggregatePlan), name
    pipe.engine.drain()
    places = {1: "north", 2: "south", 3: None, 4: "north"}
    rows: list[Row] = []
    heard: Answer = []
    following = pipe.db.subscribe("seen", changes=True)
    past: dict[int, dict[str, Answer]] = {}
    for _ in range(20):
        pipe.clock.advance(chance.choice([100_000, 1_700_000, 6_000_000]))
        fresh: list[Row] = []
        for _ in range(chance.choice([0, 1, 5])):
            late = chance.choice([0, 0, 0, 2_000_000, 9_000_000])
            value = chance.choice([None, 0.0, -0.0, math.nan, float(chance.randint(-2, 4))])
            sensor = chance.choice(list(places))
            fresh.append({"id": sensor, "ts": pipe.clock.now_us() - late, "value": value})
        if fresh:
            pipe.db.push("probes", [{**r, "ts": format_timestamp(r["ts"])} for r in fresh])
        rows += [{**r, "place": places[r["id"]]} for r in fresh]
        pipe.engine.cycle()
        if chance.random() < 0.15:
            pipe.restart()
            following, heard = pipe.db.subscribe("seen", changes=True), []
        now = max((r["ts"] for r in rows), default=0)
        inside = [r for r in rows if now - 10 * SECOND <= r["ts"]]
        record = pipe.db.standing.commits.last
        assert record is not None
        before = rows[: record.start.data.get(1, 0)]  # what the cycle before had read
        warm = [r for r in before if now - 10 * SECOND <= r["ts"] and r["value"] is not None and not r["value"] <= 2]
        wanted = expected(inside, warm)
        for name in QUESTIONS:
            assert answer(pipe, name) == wanted[name], (seed, name, inside)
        while (event := following.next(0)) is not None:
            for row in event.table.to_pylist():
                change = (known(row["place"]), known(row["value"]))
                heard.append(change) if row["op"] == "+" else heard.remove(change)
        assert sorted(heard, key=repr) == wanted["seen"], (seed, heard)
        past[pipe.db.standing.store.cycle] = wanted
        older = pipe.db.standing.store.cycle - 2
        if older in past:
            assert answer(pipe, "counts", older) == past[older]["counts"], (seed, older)
            assert answer(pipe, "seen", older) == past[older]["seen"], (seed, older)


def test_it_is_explained_as_groups_and_shares_them_with_group_by(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY grouped AS {QUESTIONS['grouped']}")
    pipe.db.execute(f"CREATE QUERY seen AS {QUESTIONS['seen']}")
    pipe.db.execute(f"CREATE QUERY counts AS {QUESTIONS['counts']}")
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    told = pipe.db.execute("EXPLAIN seen").table.column("plan").to_pylist()
    assert told[0] == 'slices of the stream of "probes", exact' and "  groups: place, value" in told, told
    assert "shared" in str(told), "\n".join(told)
    told = pipe.db.execute("EXPLAIN counts").table.column("plan").to_pylist()
    assert "  distinct: rows that are alike come once" in told and "  sorted: n DESC" in told, told


def test_every_plain_type_has_values_once(pipe: Pipe) -> None:
    fields = "a BOOLEAN, b BINARY, c DECIMAL(9, 2), d TIMESTAMP, e TEXT, f BIGINT"
    pipe.db.execute(f"CREATE TABLE mixed (id INT PRIMARY KEY, r STREAM ({fields}))")
    pipe.db.execute("INSERT INTO mixed VALUES (1, NULL), (2, NULL)")
    pipe.db.execute("CREATE QUERY q AS SELECT DISTINCT a, b, c, d, d - d AS gap, e, f FROM mixed")
    reading = {"a": True, "b": "AAH/", "c": "1.50", "d": "2026-01-01T00:00:00.000001Z", "e": "\u00e4", "f": 2**62}
    pipe.clock.advance(1000)
    pipe.db.push(
        "mixed",
        [
            {"id": 1, **reading},
            {"id": 2, **dict.fromkeys(reading)},
            {"id": 2, **reading},
            {"id": 2, **reading, "a": None},
        ],
    )
    pipe.engine.drain()
    told = [list(row.values()) for row in pipe.db.standing.invoke("q").table.to_pylist()]
    assert [row[0] for row in told] == [True, None, None] and len(told) == 3, told
    pipe.restart()
    assert [list(row.values()) for row in pipe.db.standing.invoke("q").table.to_pylist()] == told
    assert [None] * 7 in told and [told[0][i] for i in (0, 1, 4, 5, 6)] == [True, b"\x00\x01\xff", 0, "\u00e4", 2**62]


STAYS = {
    "SELECT DISTINCT xs FROM lists": "DISTINCT of an array or a struct runs as Spark SQL",
    "SELECT DISTINCT MAX(k) AS m, ARRAY(1) AS x FROM lists GROUP BY k": "DISTINCT of an array or a struct runs as Spark SQL",
    "SELECT DISTINCT ON (k) k, ts FROM lists ORDER BY k, ts": "DISTINCT runs as Spark SQL",
    "SELECT DISTINCT 1 AS one FROM lists WHERE k > 1": "DISTINCT runs as Spark SQL",
    "SELECT DISTINCT RANK() OVER (ORDER BY k) AS r FROM lists": "a window function runs as Spark SQL",
    "SELECT DISTINCT k FROM lists UNION SELECT k FROM lists": "UNION runs as Spark SQL",
}


def test_what_slices_cannot_group_by_stays_spark_sql_as_it_was_written(pipe: Pipe) -> None:
    pipe.db.execute("CREATE TABLE lists (id INT PRIMARY KEY, r STREAM (xs ARRAY<INT>, k INT))")
    for question, reason in STAYS.items():
        (select,) = parse_script(question)
        assert isinstance(select, Select)
        plan = plan_query(select, pipe.db.catalog.state, standing=True, joins=True)
        assert isinstance(plan, SparkPlan) and plan.reason == reason, (question, plan)
        assert ("GROUP BY" in plan.sql) == ("GROUP BY" in question), plan.sql
