"""The claims of the monitoring patent, one named test each, against brute force over every reading there ever was.

Many series are stored, persistent queries run over them, and queries and windows come, change and go while data
flows; statistics are computed as it comes; a new or grown window is filled from history that is already held.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.clock import SECOND
from tests.support.pipe import BEGAN_US, Pipe

SERIES = 40
TABLE = "CREATE TABLE series (id INT PRIMARY KEY, place TEXT, reading STREAM (value INT)) WITH (time = 'valid')"


@dataclass(frozen=True)
class Point:
    """One value of one series."""

    series: int
    seconds: int
    value: int


@dataclass(frozen=True)
class Asked:
    """A persistent query: values above a bound, of series below a number, of the last seconds."""

    above: int
    below: int
    span: int

    @property
    def sql(self) -> str:
        where = f"value > {self.above} AND id < {self.below}"
        return f"SELECT id, value, ts FROM series WHERE {where} BEGIN (NOW - {self.span} SECONDS) END (NOW)"


@dataclass
class Plant:
    """A database, what was sent to it, and what every query has to answer."""

    pipe: Pipe
    rng: random.Random
    points: list[Point] = field(default_factory=list)
    queries: dict[str, Asked] = field(default_factory=dict)
    now: int = 0

    def flow(self, rounds: int = 1) -> None:
        """Data comes, and a cycle takes it in."""
        for _ in range(rounds):
            self.now += self.rng.randrange(1, 4)
            chosen = self.rng.sample(range(SERIES), self.rng.randrange(1, SERIES))
            new = [Point(series, self.now, self.rng.randrange(100)) for series in chosen]
            rows = [{"id": p.series, "value": p.value, "ts": BEGAN_US + p.seconds * SECOND} for p in new]
            assert self.pipe.db.push("series", rows).accepted == len(rows)
            self.points += new
            self.pipe.engine.drain()

    def create(self, name: str, asked: Asked) -> None:
        self.pipe.db.execute(f"CREATE QUERY {name} AS {asked.sql}")
        self.queries[name] = asked
        self.pipe.engine.drain()

    def random_query(self) -> Asked:
        return Asked(self.rng.randrange(100), self.rng.randrange(1, SERIES), self.rng.randrange(0, 40))

    def inside(self, asked: Asked) -> list[Point]:
        """By brute force: NOW is the newest time of the series that the query is about."""
        own = [p for p in self.points if p.series < asked.below]
        newest = max((p.seconds for p in own), default=0)
        return [p for p in own if p.value > asked.above and p.seconds >= newest - asked.span]

    def answer(self, name: str) -> Counter[tuple[int, int, int]]:
        rows = self.pipe.db.invoke(name).table.to_pylist()
        return Counter((r["id"], r["value"], (int(r["ts"].timestamp() * 1e6) - BEGAN_US) // SECOND) for r in rows)

    def check(self) -> None:
        for name, asked in self.queries.items():
            expected = Counter((p.series, p.value, p.seconds) for p in self.inside(asked))
            assert self.answer(name) == expected, (name, asked)


@pytest.fixture(params=[1, 2, 3])
def plant(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Plant]:
    pipe = Pipe(tmp_path / "data")
    pipe.clock.advance(3600 * SECOND)  # the series' own times are not ahead of the wall clock
    pipe.db.execute(TABLE)
    pipe.db.execute("INSERT INTO series VALUES " + ", ".join(f"({i}, 'p{i % 3}', NULL)" for i in range(SERIES)))
    yield Plant(pipe, random.Random(request.param))
    pipe.db.stop()


def test_stored_series_many_are_stored_and_persistent_queries_run_over_them(plant: Plant) -> None:
    for number in range(12):
        plant.create(f"q{number}", plant.random_query())
    for _ in range(8):
        plant.flow()
        plant.check()
    plant.pipe.restart()
    plant.check()
    plant.flow()
    plant.check()


def test_dynamic_queries_are_added_changed_and_removed_while_data_flows(plant: Plant) -> None:
    for step in range(20):
        act = plant.rng.choice(("add", "add", "change", "remove"))
        if act == "add" or not plant.queries:
            plant.create(f"q{step}", plant.random_query())
        elif act == "change":
            # A query is changed by another one in its place; nobody else's answer may change with it.
            name = plant.rng.choice(sorted(plant.queries))
            plant.pipe.db.execute(f"DROP QUERY {name}")
            plant.create(name, plant.random_query())
        else:
            name = plant.rng.choice(sorted(plant.queries))
            plant.pipe.db.execute(f"DROP QUERY {name}")
            del plant.queries[name]
        plant.check()
        plant.flow()
        plant.check()


def test_dynamic_windows_are_added_removed_and_resized_while_data_flows(plant: Plant) -> None:
    plant.flow(10)
    for number in range(4):
        plant.create(f"q{number}", plant.random_query())
    for step in range(15):
        name = plant.rng.choice(sorted(plant.queries))
        asked = replace(plant.queries[name], span=plant.rng.randrange(0, 60))
        plant.pipe.db.execute(f"ALTER QUERY {name} SET BEGIN (NOW - {asked.span} SECONDS)")
        plant.queries[name] = asked
        plant.pipe.engine.drain()
        plant.check()
        if step % 5 == 4:  # one window more on a question that has one, and one less
            plant.create(f"more{step}", replace(asked, span=asked.span + 7))
            gone = plant.rng.choice(sorted(plant.queries))
            plant.pipe.db.execute(f"DROP QUERY {gone}")
            del plant.queries[gone]
        plant.flow()
        plant.check()


def test_history_fills_inserted_windows_from_what_is_held_already(plant: Plant) -> None:
    plant.flow(15)
    for number in range(5):
        plant.create(f"q{number}", replace(plant.random_query(), span=60))
        plant.check()  # before another reading comes
    grown = sorted(plant.queries)[0]
    plant.pipe.db.execute(f"ALTER QUERY {grown} SET BEGIN (NOW - 2 SECONDS)")
    plant.queries[grown] = replace(plant.queries[grown], span=2)
    plant.pipe.engine.drain()
    plant.flow(3)
    plant.check()
    plant.pipe.db.execute(f"ALTER QUERY {grown} SET BEGIN (NOW - 1 HOUR)")
    plant.queries[grown] = replace(plant.queries[grown], span=3600)
    plant.pipe.engine.drain()
    plant.check()
    assert sum(plant.answer(grown).values()) == len(plant.inside(plant.queries[grown])) > 0


AGGREGATES: dict[str, Callable[[list[int]], Any]] = {
    "COUNT(*)": len,
    "SUM(value)": lambda values: sum(values) if values else None,
    "AVG(value)": lambda values: sum(values) / len(values) if values else None,
    "MIN(value)": lambda values: min(values, default=None),
    "MAX(value)": lambda values: max(values, default=None),
}


def test_statistics_are_computed_online_over_any_window_of_an_answer(plant: Plant) -> None:
    """A reader of a query has the query's NOW, and sees its rows one cycle later."""
    asked = Asked(20, SERIES, 3600)
    plant.create("q", asked)
    for _ in range(6):
        told = set(plant.points)
        plant.flow()
        span = plant.rng.randrange(0, 12)
        question = f"SELECT {', '.join(AGGREGATES)} FROM q BEGIN (NOW - {span} SECONDS) END (NOW)"
        found = tuple(plant.pipe.db.execute(question).table.to_pylist()[0].values())
        values = [p.value for p in plant.inside(replace(asked, span=span)) if p in told]
        assert found == tuple(compute(values) for compute in AGGREGATES.values()), (span, question)
