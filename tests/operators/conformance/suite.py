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

import duckdb
import pytest

from penstock.clock import SECOND
from penstock.cycle.result_rows import told
from penstock.errors import PenstockError
from penstock.operators.base.answer import AnswerAt
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.operators.conformance.examples import BELOW, EXAMPLES, EXAMPLES_OF_TESTS, Example
from tests.support.examples import FAST
from tests.support.local_engine import LocalEngine
from tests.support.pipe import BEGAN_US, Pipe

SPARK_SQL = SparkPlan.operator
EVALUATED_S = 60.0
Row = tuple[str, ...]


def cases_of(operators: Iterable[str]) -> list[Any]:
    """All questions of these operators; one of each in `make test-fast`."""
    known = EXAMPLES | EXAMPLES_OF_TESTS
    asked = {name: known[name][:1] if FAST else known[name] for name in operators}
    return [
        pytest.param(name, example, id=f"{name}-{n}")
        for name, examples in asked.items()
        for n, example in enumerate(examples)
    ]


class World(Pipe):
    """Two streams in valid time with late readings, and an ordinary table. `spark`: a session, for Spark SQL."""

    def __init__(self, folder: Path, seed: int = 0, spark: Any = None, pace: int = 1, **settings: Any) -> None:
        self._spark = spark
        # Tests wait for each answer of Spark SQL: with the budget of a server it would rest for three times its work.
        super().__init__(folder, **{"cycles_keep": 64, "spark_query_budget": 0.9, **settings})
        self._random, self._now_s, self._pace = random.Random(seed), 0, pace
        self.pushed: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
        for name in ("a", "b"):
            options = "WITH (time = 'valid', out_of_order = 'accept', lateness = '10 SECONDS', max_ahead = '1 HOUR')"
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
                at_us = BEGAN_US + max(0, self._now_s - late) * SECOND
                rows.append({"id": self._random.randint(1, 3), "ts": at_us, **self._values()})
            assert not self.db.push(name, rows).refused
            self.pushed[name] += rows
        self._now_s += self._random.choice((0, 1, 3, 11)) * self._pace

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


def oracle_rows(world: World, sql: str, now_us: int | None) -> Counter[Row]:
    """What DuckDB says of the readings that were pushed."""
    places = {1: "north", 2: "south", 3: "west"}
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE places AS SELECT * FROM (VALUES ('north', 'x'), ('south', 'y')) t(place, owner)")
        oracle.execute(f"CREATE MACRO now_us() AS {now_us}")
        oracle.execute(f"CREATE MACRO second() AS {SECOND}")
        for name, rows in world.pushed.items():
            oracle.execute(
                f"CREATE TABLE {name}_log (pos BIGINT, id INT, place TEXT, ts BIGINT, n INT, v DOUBLE);"
                f"CREATE VIEW {name} AS SELECT * FROM {name}_log WHERE ts BETWEEN now_us() - 60 * second() AND now_us()"
            )
            values = [(pos, r["id"], places[r["id"]], r["ts"], r["n"], r["v"]) for pos, r in enumerate(rows)]
            oracle.executemany(f"INSERT INTO {name}_log VALUES (?, ?, ?, ?, ?, ?)", values)
        return Counter(tuple(map(repr, row)) for row in oracle.execute(sql).fetchall())


def check_oracle(world: World, example: Example) -> None:
    """Every answer is the oracle's."""
    assert example.oracle is not None
    world.db.execute(f"CREATE QUERY q AS {example.sql}")
    for _ in range(6):
        world.some()
        world.settle()
        held = world.db.standing.held("q")
        assert whole(held) == oracle_rows(world, example.oracle, held.now_us)
    assert whole(held)
    world.db.stop()


def check_trim(folder: Path, sql: str) -> None:
    """What is trimmed, released and folded into snapshots changes no answer at a kept cycle."""
    kept = World(folder / "kept", 5, pace=3)
    short = World(folder / "short", 5, cycles_keep=4, pace=3)
    kept.set_intervals(trim_cycles=1000)
    short.set_intervals(trim_cycles=1, snapshot_cycles=4)
    worlds = (kept, short)
    for world in worlds:
        world.db.execute(f"CREATE QUERY q AS {sql}")
    for step in range(12):
        for world in worlds:
            world.some()
            world.cycle()
        if step % 3 == 2:
            release(short)
        last = kept.db.standing.store.cycle
        for cycle in range(last - 1, last + 1) if step > 3 else ():  # readers of queries need the cycle before that
            assert short.rows("q", cycle) == kept.rows("q", cycle)
    short.restart()
    for world in worlds:
        world.settle()
    assert short.rows("q") == kept.rows("q")
    for world in worlds:
        world.db.stop()


def release(world: World) -> None:
    """Give up all that can be made again, as a server does whose memory is short."""
    with world.db.standing.locked() as store:
        for query in world.db.definition("q").numbers:
            world.db.standing.ready.forget(query)
            world.db.standing.samples.forget(query)
            for state in store.states.values():
                state.release(query)


def check_error(world: World, sql: str) -> None:
    """An error in a commit record fails its query and no other; resumed, that one is as if nothing had been."""
    for name in ("q", "other"):
        world.db.execute(f"CREATE QUERY {name} AS {sql}")
    for step in range(6):
        world.some()
        if step == 3:
            failed = world.db.definition("q").numbers[-1]
            failure = PenstockError("function_failed", "no such luck")
            world.engine.commits.queue.put((failed, "error", 0, 0, told(failure)))
        world.cycle()
        if step >= 3:
            with pytest.raises(PenstockError, match="no such luck"):
                world.db.invoke("q")
            assert world.db.query("q")["state"] == "FAILED" and world.db.query("other")["state"] == "RUNNING"
    for change in ("PAUSE", "RESUME"):
        world.db.execute(f"ALTER QUERY q {change}")
        world.settle()
    assert world.rows("q") == world.rows("other") and any(world.rows("q"))
    world.db.stop()


def has_final_rows(world: World, name: str) -> bool:
    return not str(world.db.query(name)["final"]).startswith("never")


def check_final(world: World, sql: str) -> None:
    """Each row that is final is told once, and stays; where no row ever is, asking for them is refused."""
    world.db.execute(f"CREATE QUERY q AS {sql}")
    world.cycle()
    if not has_final_rows(world, "q"):
        with pytest.raises(PenstockError) as refused:
            world.db.subscribe("q", final=True)
        assert refused.value.condition == "not_supported"
        return
    subscription, once = world.db.subscribe("q", final=True), Counter[Row]()
    for step in range(12):
        world.some()
        world.cycle()
        while (event := subscription.next(0.0)) is not None:
            once += counted(event.table)
        if step == 6:
            subscription.close()
            since = subscription.cycle + 1
            world.restart()
            subscription = world.db.subscribe("q", since, final=True)
    subscription.close()
    now = counted(world.db.execute("SELECT * FROM q FINAL").table)
    assert once and now <= once and (now == once or "LAST " in sql)  # a window of rows lets go of some
    world.db.stop()


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
