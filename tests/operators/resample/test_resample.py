"""Standing queries with RESAMPLE, without Spark: asked, subscribed to, paused, restarted, at older cycles and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from penstock.errors import PenstockError
from penstock.operators.resample import answer, samples
from tests.operators.resample.streams import ASKED, WINDOW, Row, World, at, heard, in_order
from tests.spark.asking import ask, rows_of
from tests.sql.test_resample import WAYS, Reading, rounded
from tests.support.examples import seeds
from tests.support.pipe import Pipe
from tests.support.watched import watched


@pytest.mark.parametrize("seed", seeds(4))
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


@pytest.mark.parametrize("seed", seeds(2))
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


def test_who_is_far_behind_moves_on_from_what_it_heard_last(pipes: Callable[..., Pipe]) -> None:
    """What is kept is about the newest cycles; a sink that was away for an hour must not read a whole window for each of them."""
    world = World(pipes, 11)
    world.execute(f"CREATE QUERY q AS {ASKED} {WINDOW}")
    world.push(0, 20)
    first, expected = world.pipe.db.standing.store.cycle, {}
    for step in range(8):
        world.push(step * 4, step * 4 + 20, 5)
        expected[world.pipe.db.standing.store.cycle] = world.expected()
        assert world.answer() == world.expected()
    late = world.pipe.db.subscribe("q", first + 1, changes=True)
    kept = Counter(world.answer(as_of=first))
    whole: list[object] = []
    with watched(samples.sample, tell=whole.append, by=answer.__name__):
        while (event := late.next(0.0)) is not None:
            for operation, *values in rows_of(event.table):
                kept[rounded(tuple(values))] += 1 if operation == "+" else -1
            assert +kept == Counter(expected[event.cycle])
    assert +kept == Counter(world.expected()) and len(whole) <= 1
