"""What every operator promises its readers, on random readings with late ones and ties.

Run without Spark by `test_conformance.py`, and on Spark, for the questions that Spark SQL answers, by
`tests/spark/test_conformance.py`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.clock import SECOND, format_timestamp
from penstock.operators.base.answer import AnswerAt
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.operators.conformance.examples import BELOW, EXAMPLES
from tests.support.examples import FAST
from tests.support.local_engine import LocalEngine
from tests.support.pipe import BEGAN_US, Pipe

SPARK_SQL = SparkPlan.operator
EVALUATED_S = 60.0
Row = tuple[str, ...]


def cases_of(operators: Iterable[str]) -> list[Any]:
    """All questions of these operators; one of each in `make test-fast`."""
    asked = {name: EXAMPLES[name][:1] if FAST else EXAMPLES[name] for name in operators}
    return [
        pytest.param(name, sql, id=f"{name}-{n}") for name, all_sql in asked.items() for n, sql in enumerate(all_sql)
    ]


class World(Pipe):
    """Two streams in valid time with late readings, and an ordinary table. `spark`: a session, for Spark SQL."""

    def __init__(self, folder: Path, seed: int = 0, spark: Any = None, **settings: Any) -> None:
        self._spark = spark
        # Tests wait for each answer of Spark SQL: with the budget of a server it would rest for three times its work.
        super().__init__(folder, cycles_keep=64, spark_query_budget=0.9, **settings)
        self._random, self._now_s = random.Random(seed), 0
        for name in ("a", "b"):
            options = "WITH (time = 'valid', out_of_order = 'accept')"
            columns = "id INT PRIMARY KEY, place TEXT, reading STREAM (n INT, v DOUBLE)"
            self.db.execute(f"CREATE TABLE {name} ({columns}) {options}")
            self.db.execute(f"INSERT INTO {name} VALUES (1, 'north', NULL), (2, 'south', NULL), (3, 'west', NULL)")
        self.db.execute("CREATE TABLE places (place TEXT PRIMARY KEY, owner TEXT)")
        self.db.execute("INSERT INTO places VALUES ('north', 'x'), ('south', 'y')")
        for name, sql in BELOW.items():
            self.db.execute(f"CREATE QUERY {name} AS {sql}")
        if spark is not None:
            self.cycle()  # Spark SQL tries a new query at once, on tables that a cycle has taken in

    def _make_engine(self, *arguments: Any) -> LocalEngine:
        engine = super()._make_engine(*arguments)
        engine.spark = self._spark
        return engine

    def some(self) -> None:
        """A few readings of both streams, some of them late, some at the same time."""
        for name in ("a", "b"):
            rows = []
            for _ in range(self._random.randint(1, 4)):
                late = self._random.choice((0, 0, 1, 7))
                ts = format_timestamp(BEGAN_US + max(0, self._now_s - late) * SECOND)
                rows.append({"id": self._random.randint(1, 3), "ts": ts, **self._values()})
            self.db.push(name, rows)
        self._now_s += self._random.choice((0, 1, 3, 11))

    def _values(self) -> dict[str, Any]:
        return {"n": self._random.randint(0, 9), "v": float(self._random.randint(0, 5))}

    def cycle(self) -> None:
        """Run what is due. Spark SQL answers outside of the cycle: its answers for this one are waited for."""
        self.clock.advance(SECOND)
        self.engine.drain()
        with self.db.standing.locked() as store:
            cycle, waiting = store.cycle, [q for q in store.operators if q in store.evaluations.by_query]
        deadline = time.monotonic() + EVALUATED_S
        while waiting:
            assert time.monotonic() < deadline, f"Spark SQL gave no answer for cycle {cycle}"
            time.sleep(0.005)
            with self.db.standing.locked() as store:
                waiting = [q for q in waiting if (store.evaluations.stands_for(q) or (0, 0))[0] < cycle]

    def settle(self) -> None:
        """Readers of other queries see rows one cycle later."""
        for _ in range(3):
            self.cycle()

    def rows(self, name: str, cycle: int | None = None) -> Counter[Row]:
        return counted(self.db.standing.invoke(name, cycle).table)


def counted(table: Any) -> Counter[Row]:
    return Counter(tuple(repr(value) for value in row.values()) for row in table.to_pylist())


def whole(held: AnswerAt) -> Counter[Row]:
    return counted(held.rows(held.inside()))


def check_splits(folder: Path, sql: str, spark: Any = None) -> None:
    """Any split into cycles gives the same answer."""
    found = []
    for every in (1, 3, 100):
        world = World(folder / f"every{every}", 3, spark)
        world.db.execute(f"CREATE QUERY q AS {sql}")
        for step in range(1, 13):
            world.some()
            if step % every == 0:
                world.cycle()
        world.settle()
        found.append(world.rows("q"))
        world.db.stop()
    assert found[0] == found[1] == found[2] and any(found)


def check_life(world: World, operator: str, sql: str) -> None:
    """One life: kept answers never change, changes add up, a late query equals an early one, a restart keeps, a drop frees."""
    world.db.execute(f"CREATE QUERY q AS {sql}")
    assert plan_from_json(world.db.definition("q").plan).operator == operator
    world.cycle()
    subscription, told = world.db.subscribe("q", changes=True), Counter[Row]()
    held: list[tuple[AnswerAt, Counter[Row]]] = []
    for _ in range(10):
        world.some()
        world.cycle()
        while (event := subscription.next(0.0)) is not None:
            for row in event.table.to_pylist():
                sign = 1 if row.pop("op") == "+" else -1
                told[tuple(repr(value) for value in row.values())] += sign
        assert +told == world.rows("q") and min(told.values(), default=0) >= 0
        at = world.db.standing.held("q")
        held.append((at, whole(at)))
    subscription.close()
    for at, rows in held:
        assert whole(at) == rows == world.rows("q", at.cycle)

    world.db.execute(f"CREATE QUERY late AS {sql}")
    world.settle()
    assert world.rows("late") == world.rows("q")

    before, cycle = world.rows("q"), world.db.standing.store.cycle
    world.restart()
    assert world.rows("q") == before == world.rows("q", cycle)

    query = world.db.definition("late").id
    world.db.execute("DROP QUERY late")
    world.cycle()
    assert world.db.standing.memory_of(query) == 0 and not world.db.standing.store.knows(query)
    assert world.rows("q") == before
    world.db.stop()
