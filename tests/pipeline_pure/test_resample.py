"""Standing queries with RESAMPLE, without Spark: asked, subscribed to, paused, restarted, at older cycles and times."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.clock import SECOND, format_timestamp
from penstock.errors import PenstockError
from penstock.queries.plan_graph import plan_graph
from tests.pipeline.asking import ask, rows_of
from tests.pipeline_pure.world import Pipe
from tests.sql.test_resample import WAYS, Reading, rounded

BEGAN_US = 1_763_189_000_000_000
OPTIONS = "WITH (time = 'valid', out_of_order = 'accept')"
WITHIN = {"PREVIOUS": 3, "LINEAR": 8, "MEAN": 2}
CALLS = ", ".join(f"RESAMPLE(v.ppm, {s} SECONDS, {way}) AS {way.lower()}" for way, s in WITHIN.items())
ASKED = f"SELECT t.n, t.id, {CALLS} FROM times t, v WHERE v.id = t.id AND v.ppm <> 2.5"
WINDOW = "BEGIN (NOW - 40 SECONDS) END (NOW)"
Row = tuple[Any, ...]


class World:
    """Two streams of two sensors each, what came of them, and what that makes."""

    def __init__(self, pipes: Callable[..., Pipe], seed: int = 1, **settings: Any) -> None:
        self.pipe = pipes(**settings)
        self.chance = random.Random(seed)
        self.times: list[tuple[int, int, int]] = []  # when, which sensor, which number
        self.values: list[Reading] = []
        self.execute(f"CREATE TABLE times (id INT PRIMARY KEY, tick STREAM (n INT)) {OPTIONS}")
        self.execute(f"CREATE TABLE v (id INT PRIMARY KEY, place TEXT, reading STREAM (ppm DOUBLE)) {OPTIONS}")
        self.execute("INSERT INTO times VALUES (1, NULL), (2, NULL)")
        self.execute("INSERT INTO v VALUES (1, 'north', NULL), (2, 'south', NULL)")

    def execute(self, sql: str) -> None:
        self.pipe.db.execute(sql)
        self.pipe.engine.drain()

    def push(self, low: int, high: int, count: int = 20) -> None:
        """Readings of both at whole seconds, many at the same, in any order; the last of each at `high`."""
        chance = self.chance
        seconds = [chance.randint(low, high) for _ in range(count)]
        times = [(s, chance.randint(1, 2), len(self.times) + i) for i, s in enumerate([*seconds, high])]
        values = [
            Reading(s, len(self.values) + i, chance.randint(1, 2), chance.choice([None, 2.5, 1.0, float(i)]))
            for i, s in enumerate([*(chance.randint(low, high) for _ in range(count)), high])
        ]
        self.put(times, values)

    def put(self, times: list[tuple[int, int, int]], values: list[Reading]) -> None:
        self.times += times
        self.values += values
        if times:
            self.pipe.db.push("times", [{"id": i, "ts": at(s), "n": n} for s, i, n in times])
        if values:
            self.pipe.db.push("v", [{"id": r.key, "ts": at(r.ts), "ppm": r.value} for r in values])
        self.pipe.engine.drain()

    def now(self) -> int:
        return min(max(s for s, _, _ in self.times), max(r.ts for r in self.values))

    def expected(self, back: int = 40, keyed: bool = True, now: int | None = None) -> list[Row]:
        now = self.now() if now is None else now
        rows = []
        for second, sensor, n in self.times:
            if now - back <= second <= now:
                near = [r for r in self.values if r.value not in (None, 2.5) and (not keyed or r.key == sensor)]
                rows.append((n, sensor, *(WAYS[way](near, second, s) for way, s in WITHIN.items())))
        return sorted(map(rounded, rows), key=repr)

    def answer(self, name: str = "q", as_of: int | str | None = None) -> list[Row]:
        return in_order(rows_of(self.pipe.db.invoke(name, as_of).table))


def at(second: float) -> str:
    return format_timestamp(BEGAN_US + int(second * SECOND))


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(map(rounded, rows), key=repr)


@pytest.mark.parametrize("seed", range(4))
def test_it_says_what_brute_force_says_cycle_by_cycle(pipes: Callable[..., Pipe], seed: int) -> None:
    world = World(pipes, seed)
    world.push(0, 20, 5)
    world.execute(f"CREATE QUERY q AS {ASKED} {WINDOW}")
    world.execute(f"CREATE QUERY together AS {ASKED.replace('v.id = t.id AND', '')} {WINDOW}")
    plain, changes = world.pipe.db.subscribe("q"), world.pipe.db.subscribe("q", changes=True)
    kept: Counter[Row] = Counter()
    told: Counter[Row] = Counter()
    before: Counter[Row] = Counter()
    was: dict[int, list[Row]] = {}
    for step in range(6):
        if step == 3:
            world.pipe.restart()
            plain.close()
            plain, changes = world.pipe.db.subscribe("q"), world.pipe.db.subscribe("q", changes=True)
            kept, told, before = Counter(), Counter(), Counter()
        elif step:
            world.push(step * 10 - 25, step * 10 + 20, world.chance.choice([0, 1, 20]))  # late ones, too
        expected = world.expected()
        assert world.answer() == expected, seed
        assert world.answer("together") == world.expected(keyed=False), seed
        assert in_order(ask(world.pipe.db, f"{ASKED} {WINDOW}")) == expected, seed
        for row in heard(plain):
            told[rounded(row)] += 1
        for operation, *values in heard(changes):
            kept[rounded(tuple(values))] += 1 if operation == "+" else -1
        assert +kept == Counter(expected) and min(kept.values(), default=0) >= 0, seed
        assert not Counter(expected) - before - told, seed  # each new value was told
        before = Counter(expected)
        was[world.pipe.db.standing.store.cycle] = expected
    for cycle, expected in was.items():
        assert world.answer(as_of=cycle) == expected, (seed, cycle)
    oldest = min(was)
    kept = Counter(was[oldest])
    for operation, *values in heard(world.pipe.db.subscribe("q", oldest + 1, changes=True)):
        kept[rounded(tuple(values))] += 1 if operation == "+" else -1
    assert +kept == before and min(kept.values()) >= 0, seed


def heard(subscription: Any) -> list[Row]:
    rows: list[Row] = []
    while (event := subscription.next(0.0)) is not None:
        rows += rows_of(event.table)
    return rows


@pytest.mark.parametrize("seed", range(2))
def test_whoever_asks_each_cycle_hears_the_same_as_who_asks_once(pipes: Callable[..., Pipe], seed: int) -> None:
    """Each cycle moves on from the answer before; a question that is asked once reads everything."""
    world = World(pipes, seed)
    previous = "SELECT t.n, t.ts, RESAMPLE(v.ppm, 4 SECONDS) AS p FROM times t, v WHERE t.id = v.id"
    asked = {
        "own": f"{ASKED} BEGIN (NOW - 30 SECONDS) END (NOW) BEGIN (NOW - 9 SECONDS) END (NOW - 2 SECONDS) FOR v",
        "behind": f"{ASKED} BEGIN (NOW - 30 SECONDS) END (NOW - 5 SECONDS)",
        "back": f"{previous} BEGIN (NOW - 30 SECONDS) END (NOW)",
        "north": f"{previous} AND v.place = 'north' AND v.ppm < 12 AND t.n % 3 > 0 {WINDOW}",
        "ever": f"{ASKED} BEGIN ('2020-01-01') END ('2030-01-01')",
    }
    for name, text in asked.items():
        world.execute(f"CREATE QUERY {name} AS {text}")
    for step in range(6):
        count = world.chance.choice([0, 1, 15])
        world.push(step * 10 - world.chance.choice([0, 30]), step * 10 + world.chance.choice([0, 12]), count)
        if step == 4:  # retention takes the oldest of both
            for table in ("times", "v"):
                world.pipe.db.catalog.retain(world.pipe.db.catalog_table(table).id, 3)
            world.pipe.engine.drain()
        for name, text in asked.items():
            assert world.answer(name) == in_order(ask(world.pipe.db, text)), (seed, step, name)
    assert len(world.answer("ever")) == len(world.times) - 3
    assert world.pipe.db.query("ever")["memory"] > 0
    world.execute("DROP QUERY ever")


def test_a_later_reading_corrects_what_was_said(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes)
    lines = "SELECT t.n, RESAMPLE(v.ppm, 8 SECONDS, LINEAR) AS ppm FROM times t, v WHERE v.id = t.id"
    world.execute(f"CREATE QUERY q AS {lines} {WINDOW}")
    world.put([(10, 1, 0)], [Reading(8, 0, 1, 1.0), Reading(10, 1, 2, 0.0)])
    plain, changes = world.pipe.db.subscribe("q"), world.pipe.db.subscribe("q", changes=True)
    assert heard(plain) == [(0, None)] and heard(changes) == [("+", 0, None)]
    world.put([], [Reading(14, 2, 1, 4.0)])
    assert heard(plain) == [(0, 2.0)] and heard(changes) == [("-", 0, None), ("+", 0, 2.0)]
    world.put([], [Reading(9, 3, 1, None), Reading(9, 4, 2, 5.0)])  # no reading, and not of this sensor
    assert heard(plain) == heard(changes) == []
    world.put([], [Reading(12, 5, 1, 7.0)])  # late
    assert heard(plain) == [(0, 4.0)] and heard(changes) == [("-", 0, 2.0), ("+", 0, 4.0)]
    world.put([(51, 1, 1)], [Reading(51, 6, 1, 0.0)])
    assert heard(plain) == [(1, 0.0)] and heard(changes) == [("-", 0, 4.0), ("+", 1, 0.0)]


def test_a_condition_on_the_value_an_order_and_a_limit(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes, 5)
    world.execute(
        "CREATE QUERY q AS SELECT t.n, RESAMPLE(v.ppm, 3 SECONDS) * 2 AS twice FROM v JOIN times t ON v.id = t.id"
        " WHERE v.place = 'north' AND RESAMPLE(v.ppm, 3 SECONDS) > 1 AND t.n <> 3"
        " BEGIN (NOW - 40 SECONDS) END (NOW) ORDER BY twice DESC, t.n LIMIT 4"
    )
    subscription = world.pipe.db.subscribe("q", changes=True)
    kept: Counter[Row] = Counter()
    for step in range(3):
        world.push(step * 10, step * 10 + 20, 30)
        rows = []
        now = min(max(s for s, _, _ in world.times), max(r.ts for r in world.values if r.key == 1))
        for second, sensor, n in world.times:
            near = [r for r in world.values if r.key == sensor == 1 and r.value is not None]
            found = WAYS["PREVIOUS"](near, second, 3)
            if found is not None and found > 1 and n != 3 and now - 40 <= second <= now:
                rows.append((n, found * 2))
        expected = sorted(rows, key=lambda row: (-row[1], row[0]))[:4]
        assert rows_of(world.pipe.db.invoke("q").table) == expected
        for operation, *values in heard(subscription):
            kept[tuple(values)] += 1 if operation == "+" else -1
        assert +kept == Counter(expected)


def test_pauses_new_windows_and_past_times(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes, 7)
    world.execute(f"CREATE QUERY q AS {ASKED} {WINDOW}")
    world.push(0, 30)
    first, cycle = world.answer(), world.pipe.db.standing.store.cycle
    assert first == world.expected() and len(first) > 10
    subscription = world.pipe.db.subscribe("q", changes=True)
    kept = Counter(rounded(tuple(values)) for _, *values in heard(subscription))
    world.execute("ALTER QUERY q PAUSE")
    world.push(20, 50)
    assert heard(subscription) == [] and world.pipe.db.query("q")["state"] == "PAUSED"
    with pytest.raises(PenstockError, match="PAUSED"):
        world.pipe.db.invoke("q")
    rested = world.pipe.db.standing.store.cycle
    world.execute("ALTER QUERY q RESUME")
    with pytest.raises(PenstockError, match="for this query"):
        world.pipe.db.invoke("q", rested)
    assert world.answer() == world.expected()
    world.execute("ALTER QUERY q SET BEGIN (NOW - 15 SECONDS)")
    assert world.answer() == world.expected(15)
    for operation, *values in heard(subscription):
        kept[rounded(tuple(values))] += 1 if operation == "+" else -1
    assert +kept == Counter(world.expected(15))
    assert world.answer(as_of=cycle) == first
    # As of a time the future of both streams is not known, but what came late is.
    past = world.answer(as_of=f"'{at(35)}'")
    world.times = [row for row in world.times if row[0] <= 35]
    world.values = [r for r in world.values if r.ts <= 35]
    assert past == world.expected(15, now=35) and len(past) > 5
    world.execute("DROP QUERY q")
    with pytest.raises(PenstockError, match="q"):
        subscription.next(0.0)


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
