"""Aggregates beside a subquery that is one value, over their life: random readings against all rows, and what is told about them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.sql.plan import evaluated_by_spark, plan_from_json
from penstock.statements.descriptions import describe_query
from penstock.views.standing_queries import Intervals
from tests.support.examples import SOAK
from tests.support.pipe import BEGAN_US, Pipe

SECOND = 1_000_000
SEGMENTS = {1: 7, 2: 7, 3: 8, 4: 9}
WINDOW = "BEGIN (NOW - 10 SECONDS) END (NOW)"
SLOW = "HAVING AVG(l.speed) < (SELECT 0.8 * AVG(speed) FROM loops)"
ALONE = f"SELECT l.segment, AVG(l.speed) AS v FROM loops l GROUP BY l.segment {SLOW} {WINDOW}"
BESIDE = f"SELECT l.segment, AVG(l.speed) AS v FROM loops l, incidents i WHERE i.segment = l.segment GROUP BY l.segment {SLOW} {WINDOW}"
PAIRS = (
    "SELECT l.segment, AVG(l.speed) AS v FROM loops l, loops o WHERE o.segment = l.segment WINDOW(l, o) = 1 SECOND"
    f" GROUP BY l.segment {SLOW} {WINDOW}"
)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "data", intervals=Intervals(own_writes_s=0.0), cycles_keep=6)
    made.db.execute(
        "CREATE TABLE loops (loop INT PRIMARY KEY, segment INT, r STREAM (speed DOUBLE))"
        " WITH (time = 'valid', out_of_order = 'accept', retention = '1 HOUR')"
    )
    made.db.execute("INSERT INTO loops VALUES " + ", ".join(f"({i}, {s}, NULL)" for i, s in SEGMENTS.items()))
    made.db.execute("CREATE TABLE incidents (id INT PRIMARY KEY, segment INT, what TEXT)")
    made.db.execute("INSERT INTO incidents VALUES (1, 7, 'roadworks'), (2, 8, 'accident')")
    yield made
    made.db.stop()


def push(pipe: Pipe, *readings: tuple[int, float], at: float = 0) -> None:
    rows = [{"loop": loop, "speed": speed, "ts": BEGAN_US + int(at * SECOND)} for loop, speed in readings]
    assert pipe.db.push("loops", rows).accepted == len(rows)


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)


def answer(pipe: Pipe, name: str, as_of: int | None = None) -> list[tuple[Any, ...]]:
    return rows_of(pipe.db.standing.invoke(name, as_of).table)


def create(pipe: Pipe, name: str, sql: str) -> None:
    pipe.db.execute(f"CREATE QUERY {name} AS {sql}")
    assert not evaluated_by_spark(plan_from_json(pipe.db.definition(name).plan)), name


@pytest.mark.parametrize("sql", [ALONE, BESIDE, PAIRS], ids=["one stream", "with a table", "window join"])
def test_a_group_comes_and_goes_because_the_subquery_moved(pipe: Pipe, sql: str) -> None:
    create(pipe, "slow", sql)
    push(pipe, (1, 50.0), (3, 60.0))
    pipe.engine.drain()
    assert answer(pipe, "slow") == []
    changes = Subscription(pipe.db.standing, "slow", None, True)
    assert changes.next(0) is not None
    before = pipe.db.standing.store.cycle
    push(pipe, (4, 100.0), at=1)  # segment 9 alone, and everybody else is slow: 0.8 * 70 = 56
    pipe.engine.drain()
    assert answer(pipe, "slow") == [(7, 50.0)]
    event = changes.next(0)
    assert event is not None and rows_of(event.table) == [("+", 7, 50.0)]
    assert answer(pipe, "slow", as_of=before) == []
    push(pipe, (4, 10.0), at=0.5)  # late: 0.8 * 55 = 44
    pipe.engine.drain()
    event = changes.next(0)
    assert event is not None and ("-", 7, 50.0) in rows_of(event.table)
    pipe.restart()
    assert answer(pipe, "slow") == []


def slow(rows: list[tuple[int, int, float]], joined: Callable[..., list[tuple[int, float]]], span: int) -> list[Any]:
    """By brute force: the segments whose combinations are slower than 0.8 of all readings, inside a window that ends at the newest."""
    now = max((ts for ts, _, _ in rows), default=0)
    inside = [row for row in rows if row[0] >= now - span]
    by_segment: dict[int, list[float]] = {}
    for segment, speed in joined(inside):
        by_segment.setdefault(segment, []).append(speed)
    if not inside:
        return []
    limit = 0.8 * (sum(speed for _, _, speed in inside) / len(inside))
    means = {segment: sum(speeds) / len(speeds) for segment, speeds in by_segment.items()}
    return sorted(((segment, mean) for segment, mean in means.items() if mean < limit), key=repr)


def with_incidents(inside: list[tuple[int, int, float]]) -> list[tuple[int, float]]:
    return [(SEGMENTS[loop], speed) for _, loop, speed in inside if SEGMENTS[loop] in (7, 8)]


def near_each_other(inside: list[tuple[int, int, float]]) -> list[tuple[int, float]]:
    return [
        (SEGMENTS[loop], speed)
        for ts, loop, speed in inside
        for other, beside, _ in inside
        if SEGMENTS[beside] == SEGMENTS[loop] and abs(other - ts) <= SECOND
    ]


@pytest.mark.parametrize("seed", range(2 if SOAK else 1))
def test_joins_beside_a_subquery_say_what_all_rows_say(pipe: Pipe, seed: int) -> None:
    pipe.set_intervals(trim_cycles=3, snapshot_cycles=5)
    chance = random.Random(seed)
    shapes = {"beside": (BESIDE, with_incidents), "pairs": (PAIRS, near_each_other)}
    for name, (sql, _) in shapes.items():
        create(pipe, name, sql)
    pipe.engine.drain()
    watching = {name: (Subscription(pipe.db.standing, name, None, True), []) for name in shapes}
    rows: list[tuple[int, int, float]] = []
    said: dict[tuple[str, int], list[Any]] = {}
    span, at = 10 * SECOND, 0
    for turn in range(18):
        for _ in range(chance.randint(0, 5)):
            at += chance.choice([0, 300_000, 1_700_000])
            ts, loop = at - chance.choice([0, 0, 0, 2_500_000, 8_000_000]), chance.choice(list(SEGMENTS))
            rows.append((BEGAN_US + ts, loop, float(chance.choice([10, 40, 50, 60, 100]))))
            push(pipe, (loop, rows[-1][2]), at=ts / SECOND)
        if turn in (6, 12):
            span = chance.choice([4, 15, 25]) * SECOND
            for name in shapes:
                pipe.db.execute(f"ALTER QUERY {name} SET BEGIN (NOW - {span // SECOND} SECONDS)")
        pipe.engine.drain()
        cycle = pipe.db.standing.store.cycle
        for name, (_, joined) in shapes.items():
            said[name, cycle] = slow(rows, joined, span)
            assert answer(pipe, name) == said[name, cycle], (seed, turn, name)
            subscription, known = watching[name]
            while (event := subscription.next(0)) is not None:
                for operation, *row in rows_of(event.table):  # "+" sorts before "-", and what left was there before
                    known.append((operation, tuple(row)))
            there = [row for operation, row in known if operation == "+"]
            for operation, row in known:
                if operation == "-":
                    there.remove(row)
            assert sorted(there, key=repr) == said[name, cycle], (seed, turn, name)
            kept = [c for n, c in said if n == name and c >= pipe.db.standing.feed.oldest()]
            for older in kept:
                assert answer(pipe, name, as_of=older) == said[name, older], (seed, turn, name, older)
        if turn in (4, 13):
            pipe.restart()
            watching = {name: (Subscription(pipe.db.standing, name, None, True), []) for name in shapes}


def test_a_window_of_its_own_stays_and_one_that_is_inherited_moves_along(pipe: Pipe) -> None:
    share = "SUM(l.speed) / (SELECT SUM(speed) FROM loops {}) AS v FROM loops l GROUP BY l.segment"
    create(pipe, "own", f"SELECT l.segment, {share.format('BEGIN (NOW - 1 MINUTE) END (NOW)')} {WINDOW}")
    create(pipe, "inherited", f"SELECT l.segment, {share.format('')} {WINDOW}")
    push(pipe, (1, 60.0))
    push(pipe, (3, 40.0), at=30)
    pipe.engine.drain()
    assert answer(pipe, "own") == [(8, 0.4)] and answer(pipe, "inherited") == [(8, 1.0)]
    before = pipe.db.standing.store.cycle
    for name in ("own", "inherited"):
        pipe.db.execute(f"ALTER QUERY {name} SET BEGIN (NOW - 30 SECONDS)")
    pipe.engine.drain()
    assert answer(pipe, "own") == answer(pipe, "inherited") == [(7, 0.6), (8, 0.4)]
    assert answer(pipe, "inherited", as_of=before) == [(8, 1.0)]
    push(pipe, (3, 100.0), at=50)
    pipe.engine.drain()
    assert answer(pipe, "own") == [(8, 0.7)] and answer(pipe, "inherited") == [(8, 1.0)]


@pytest.mark.parametrize("from_", ["loops l", "loops l, incidents i WHERE i.segment = l.segment"])
def test_what_only_the_order_needs_may_be_a_subquery(pipe: Pipe, from_: str) -> None:
    away = "ABS(AVG(l.speed) - (SELECT AVG(speed) FROM loops))"
    create(pipe, "odd", f"SELECT l.segment FROM {from_} GROUP BY l.segment ORDER BY {away} DESC {WINDOW}")
    push(pipe, (1, 50.0), (3, 100.0), (2, 40.0))  # 45 and 100 around 63 1/3
    pipe.engine.drain()
    assert pipe.db.standing.invoke("odd").table.to_pydict() == {"segment": [8, 7]}


def test_a_question_that_has_ended_is_not_finished_while_its_subquery_moves_on(pipe: Pipe) -> None:
    ended = "FROM loops GROUP BY segment BEGIN (START) END (START + 5 SECONDS)"
    push(pipe, (1, 60.0))
    pipe.engine.drain()
    create(pipe, "alone", f"SELECT segment, SUM(speed) AS v {ended}")
    create(pipe, "both", f"SELECT segment, (SELECT MAX(speed) FROM loops {WINDOW}) AS v {ended}")
    pipe.engine.drain()
    for at, speed in ((10, 40.0), (30, 50.0)):
        push(pipe, (1, speed), at=at)
        pipe.engine.drain()
        assert pipe.db.standing.finished == {pipe.db.definition("alone").id}
        assert answer(pipe, "alone") == [(7, 60.0)] and answer(pipe, "both") == [(7, speed if at > 10 else 60.0)]


def test_nothing_inside_is_null_and_both_are_counted_told_and_forgotten(pipe: Pipe) -> None:
    many = "(SELECT COUNT(speed) FROM loops HAVING COUNT(speed) > 2)"
    create(pipe, "rare", f"SELECT l.segment, {many} AS n FROM loops l GROUP BY l.segment {WINDOW}")
    create(pipe, "slow", BESIDE)
    push(pipe, (1, 10.0), (3, 60.0))
    pipe.engine.drain()
    assert answer(pipe, "rare") == [(7, None), (8, None)]
    assert answer(pipe, "slow") == [(7, 10.0)]
    push(pipe, (4, 70.0), at=1)
    pipe.engine.drain()
    assert answer(pipe, "rare") == [(7, 3), (8, 3), (9, 3)]
    values = "MAX(ts) - (SELECT MIN(ts) FROM loops) AS us, (SELECT MAX(speed) > 60 FROM loops) AS fast, (SELECT MIN(ts) FROM loops) AS at"
    create(
        pipe,
        "typed",
        f"SELECT segment, {values} FROM loops GROUP BY segment HAVING MAX(ts) > (SELECT MIN(ts) FROM loops) {WINDOW}",
    )
    pipe.engine.drain()
    assert answer(pipe, "typed") == [(9, SECOND, True, datetime.fromtimestamp(BEGAN_US // SECOND, UTC))]
    store = pipe.db.standing.store
    told = {
        name: "\n".join(pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist())
        for name in ("rare", "slow")
    }
    assert "having: avg(l.speed) < (subquery 1)" in told["slow"] and "window: that of the question" in told["slow"]
    assert all("slices of subquery 1: 1s wide, 1 partial of 2 cells, 1 group" in text for text in told.values()), told
    runs = [describe_query(pipe.db, pipe.db.definition(name)) for name in ("rare", "slow")]
    assert [facts["runs"] for facts in runs] == ["slices", "join with tables, then slices"]
    # Groups of both kinds and no groups: one family has the subqueries of all.
    assert len(store.slices.families) == 2 and all(facts["memory"] > 0 for facts in runs)
    pipe.db.execute("DROP QUERY rare; DROP QUERY slow; DROP QUERY typed")
    pipe.engine.drain()
    assert not store.slices.families and store.slices.nbytes == 0
