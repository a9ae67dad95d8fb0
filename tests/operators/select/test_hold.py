"""Conditions that last, in the shared pass: WHERE ... FOR 10 SECONDS against brute force, while rows come late."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.clock import SECOND
from tests.oracle.holds import Reading, held
from tests.spark.asking import at
from tests.support.pipe import Pipe

# Of the first eight, these run every line that decides an answer; lines that measure costs run when time has passed.
SEEDS = range(60) if os.environ.get("PENSTOCK_SOAK") else (0, 1, 4, 6)
Row = tuple[int, float]


@dataclass(frozen=True)
class Asked:
    """A question, and the same in Python."""

    where: str
    window: str
    holds: Callable[[Reading], bool]
    seconds: float
    about: Callable[[str], bool] = lambda site: True
    beside: Callable[[Reading], bool] = lambda reading: True
    span: float | None = None  # of a sliding window, in seconds
    rows: int | None = None  # of a window of rows
    per_sensor: bool = False


def above(reading: Reading) -> bool:
    return reading.value is not None and reading.value > 5


QUESTIONS = {
    "sliding": Asked("n > 5 FOR 10 SECONDS", "BEGIN (NOW - 30 SECONDS) END (NOW)", above, 10, span=30),
    "short": Asked("n > 5 FOR 20 SECONDS", "BEGIN (NOW - 3 SECONDS) END (NOW)", above, 20, span=3),
    "landmark": Asked("n > 5 FOR 10 SECONDS", f"BEGIN ('{at(0)}') END (NOW)", above, 10),
    "nulls": Asked(
        "(n > 5 OR n IS NULL) FOR 4 SECONDS",
        "BEGIN (NOW - 30 SECONDS) END (NOW)",
        lambda r: r.value is None or r.value > 5,
        4,
        span=30,
    ),
    "north": Asked(
        "site = 'north' AND n > 5 FOR 10 SECONDS",
        "BEGIN (NOW - 30 SECONDS) END (NOW)",
        above,
        10,
        about=lambda site: site == "north",
        span=30,
    ),
    "beside": Asked(
        "n < 8 AND (n > 5 FOR 10 SECONDS)",
        "BEGIN (NOW - 30 SECONDS) END (NOW)",
        above,
        10,
        beside=lambda r: r.value is not None and r.value < 8,
        span=30,
    ),
    "newest": Asked("n > 5 FOR 5 SECONDS", "BEGIN (LAST 9 ROWS)", above, 5, rows=9),
    "each": Asked("n > 5 FOR 5 SECONDS", "BEGIN (LAST 3 ROWS PER SENSOR)", above, 5, rows=3, per_sensor=True),
}


@dataclass
class World:
    """What was pushed, and what it has to come to."""

    pipe: Pipe
    log: list[Reading] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)  # of each reading, when it was logged
    site: dict[int, str] = field(default_factory=lambda: {1: "north", 2: "south", 3: "north"})
    heads: dict[int, int] = field(default_factory=dict)  # by cycle

    def begin(self, options: str = "time = 'valid', out_of_order = 'accept'") -> None:
        self.pipe.clock.advance(90 * 86400 * SECOND)  # past the times of the readings
        self.pipe.db.execute(
            f"CREATE TABLE meters (id INT PRIMARY KEY, site TEXT, reading STREAM (n INT)) WITH ({options})"
        )
        self.pipe.db.execute("INSERT INTO meters VALUES (1, 'north', NULL), (2, 'south', NULL), (3, 'north', NULL)")

    def send(self, *readings: tuple[int, float, int | None]) -> None:
        receipt = self.pipe.db.push("meters", [{"id": m, "ts": at(s), "n": n} for m, s, n in readings])
        assert receipt.accepted == len(readings)
        for sensor, seconds, value in readings:
            self.log.append(Reading(len(self.log), sensor, seconds, value))
            self.sites.append(self.site[sensor])

    def move(self, sensor: int, site: str) -> None:
        self.pipe.db.execute(f"UPDATE meters SET site = '{site}' WHERE id = {sensor}")
        self.site[sensor] = site

    def cycle(self) -> int:
        record = self.pipe.engine.cycle()
        if record is not None:
            self.heads[record.cycle] = record.end.data.get(1, 0)
        last = self.pipe.db.standing.feed.last()
        assert last is not None
        return last.cycle

    def knows(self, names: list[str]) -> bool:
        return all(name in self.pipe.db.standing.store.state.queries for name in names)

    def expected(self, asked: Asked, cycle: int, floor: int = 0) -> Counter[Row]:
        kept = [r for r in self.log[: self.heads[cycle]] if asked.about(self.sites[r.position])]
        if not kept:
            return Counter()
        now = max(r.seconds for r in kept)
        kept = [r for r in kept if r.position >= floor]
        rows = [r for r in held(kept, asked.holds, asked.seconds) if asked.beside(r)]
        if asked.rows is not None:
            counted: set[int] = set()
            for sensors in [(1,), (2,), (3,)] if asked.per_sensor else [(1, 2, 3)]:
                mine = sorted((r.seconds, r.position) for r in kept if r.sensor in sensors)
                counted |= {position for _, position in mine[-asked.rows :]}
            rows = [r for r in rows if r.position in counted]
        elif asked.span is not None:
            rows = [r for r in rows if r.seconds >= now - asked.span]
        return Counter((r.sensor, r.seconds) for r in rows)

    def answer(self, name: str, cycle: int | None = None) -> Counter[Row]:
        return rows_of(self.pipe.db.standing.invoke(name, cycle).table.to_pylist())


def rows_of(rows: list[dict[str, Any]]) -> Counter[Row]:
    return Counter(
        (row["id"], (row["ts"].minute * 60 + row["ts"].second + row["ts"].microsecond / 1e6)) for row in rows
    )


def told(subscription: Subscription) -> list[tuple[int, list[dict[str, Any]]]]:
    events = []
    while (event := subscription.next(0)) is not None:
        events.append((event.cycle, event.table.to_pylist()))
    return events


def create(world: World, name: str) -> None:
    asked = QUESTIONS[name]
    world.pipe.db.execute(f"CREATE QUERY {name} AS SELECT id, ts FROM meters WHERE {asked.where} {asked.window}")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_what_the_definition_says_at_its_cycle(pipes: Callable[..., Pipe], seed: int) -> None:
    rng = random.Random(seed)
    world = World(pipes())
    world.begin()
    moment, names = 0.0, list(QUESTIONS)
    late = rng.sample(names, 4)  # these find a history when they come
    for name in names:
        if name not in late:
            create(world, name)
    followers: dict[str, tuple[Subscription, Subscription, Counter[Row], Counter[Row]]] = {}
    for step in range(14):
        if step == 5:
            for name in late:
                create(world, name)
            while world.pipe.engine.position().fill or not world.knows(late):
                world.cycle()
        if step == 9:
            world.pipe.restart()
            followers = {}
        if rng.random() < 0.2:
            world.move(rng.choice((1, 2, 3)), rng.choice(("north", "south")))
        batch = []
        for _ in range(rng.randrange(0, 12)):
            moment = min(moment + rng.choice((0, 0.5, 1, 4)), 900)
            behind = rng.choice((0, 0, 0, 0.5, 3, 15, 40))
            batch.append((rng.choice((1, 2, 3)), max(0.0, moment - behind), rng.choice((None, 1, 6, 7, 8, 9, 9, 9))))
        if batch:
            world.send(*batch)
        cycle = world.cycle()
        known = [n for n in names if world.knows([n])]
        for name in known:
            if cycle in world.heads and rng.random() < 0.8:
                assert world.answer(name) == world.expected(QUESTIONS[name], cycle), (seed, step, name)
        for name in known:
            if name not in followers and cycle in world.heads:
                plain = world.pipe.db.subscribe(name)
                changes = world.pipe.db.subscribe(name, changes=True)
                followers[name] = (plain, changes, Counter(), Counter())
            elif name in followers and rng.random() < 0.5:
                follow(world, name, followers[name], (seed, step, name))
        if step > 3 and rng.random() < 0.5:
            past = rng.choice(sorted(world.heads)[-3:])
            for name in known:
                if past in world.heads and world.pipe.db.standing.windows.at(
                    world.pipe.db.standing.store.state.queries[name].id, past
                ):
                    assert world.answer(name, past) == world.expected(QUESTIONS[name], past), (seed, step, name, past)
    for name, follower in followers.items():
        follow(world, name, follower, (seed, "end", name))


def follow(
    world: World, name: str, follower: tuple[Subscription, Subscription, Counter[Row], Counter[Row]], what: object
) -> None:
    """Changes replayed give the answer; a plain subscriber has heard of every row that an answer had."""
    plain, changes, heard, inside = follower
    for cycle, rows in told(changes):
        inside.update(rows_of([r for r in rows if r["op"] == "+"]))
        inside.subtract(rows_of([r for r in rows if r["op"] == "-"]))
        assert +inside == world.expected(QUESTIONS[name], cycle), what
    for _, rows in told(plain):
        heard.update(rows_of(rows))
    last = world.pipe.db.standing.feed.last()
    assert last is not None
    assert world.expected(QUESTIONS[name], last.cycle) <= heard, what


def test_a_late_row_breaks_what_lasted_and_a_subscriber_hears_of_it(pipe: Pipe) -> None:
    world = World(pipe)
    world.begin()
    create(world, "sliding")
    world.cycle()
    changes = pipe.db.subscribe("sliding", changes=True)
    assert [rows for _, rows in told(changes)] == [[]]
    world.send((1, 0, 9), (1, 8, 9), (1, 12, 9))
    world.cycle()
    assert world.answer("sliding") == Counter({(1, 12.0): 1})
    world.send((1, 5, 1))
    world.cycle()
    assert world.answer("sliding") == Counter()
    world.send((1, 20, 7))
    world.cycle()
    assert world.answer("sliding") == Counter({(1, 20.0): 1})
    assert [[(row["op"], row["ts"].second) for row in rows] for _, rows in told(changes)] == [
        [("+", 12)],
        [("-", 12)],
        [("+", 20)],
    ]


def test_it_runs_in_the_shared_pass_and_explain_says_how(pipe: Pipe) -> None:
    world = World(pipe)
    world.begin()
    create(world, "beside")
    world.cycle()
    assert pipe.db.query("beside")["runs"] == "shared pass"
    lines = [row["plan"].strip() for row in pipe.db.execute("EXPLAIN beside").table.to_pylist()]
    assert "stream predicate: n > 5" in lines
    assert "true without a break, per sensor, for 10s: looked for when asked" in lines
    assert "of those: n < 8" in lines
    assert "answer kept: partial, because what has to last is looked for when asked" in lines


def test_a_reading_that_retention_took_no_longer_begins_a_stretch(pipe: Pipe) -> None:
    world = World(pipe)
    world.begin("time = 'valid', retention = '60 SECONDS'")
    create(world, "landmark")
    world.cycle()
    world.send((1, 0, 9), (2, 0, 9))
    world.cycle()
    world.send((2, 58, 9))
    cycle = world.cycle()
    assert world.answer("landmark") == world.expected(QUESTIONS["landmark"], cycle) == Counter({(2, 58.0): 1})
    world.send((1, 100, 9), (3, 100, 9), (3, 112, 9))
    cycle = world.cycle()
    assert world.answer("landmark") == world.expected(QUESTIONS["landmark"], cycle)
    assert world.answer("landmark")[(1, 100.0)] == 1
    pipe.db.catalog.retain(1, 2)
    cycle = world.cycle()
    assert world.answer("landmark") == world.expected(QUESTIONS["landmark"], cycle, floor=2) == Counter({(3, 112.0): 1})


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_are_right_whatever_retention_has_taken(pipes: Callable[..., Pipe], seed: int) -> None:
    rng = random.Random(seed)
    world = World(pipes())
    world.begin()
    for name in QUESTIONS:
        create(world, name)
    moment, floor = 0.0, 0
    for step in range(14):
        for _ in range(rng.randrange(1, 9)):
            moment = min(moment + rng.choice((0, 0.5, 1, 4)), 900)
            late = max(0.0, moment - rng.choice((0, 0, 0, 3, 15)))
            world.send((rng.choice((1, 2, 3)), late, rng.choice((None, 6, 7, 8, 9, 9, 9))))
        if rng.random() < 0.4:
            floor = rng.randrange(floor, len(world.log))
            world.pipe.db.catalog.retain(1, floor)
        cycle = world.cycle()
        for name, asked in QUESTIONS.items():
            if rng.random() < 0.7:
                assert world.answer(name) == world.expected(asked, cycle, floor), (seed, step, name)
