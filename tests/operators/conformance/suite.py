"""What every operator promises its readers, on random readings with late ones and ties.

Run without Spark by `test_conformance.py`, and on Spark, for the questions that Spark SQL answers, by
`tests/spark/test_conformance.py`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
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
Examples = Mapping[str, Example]


def cases_of(operators: Iterable[str]) -> list[Any]:
    """Each operator with its examples by the name of their query; with one of them in `make test-fast`."""
    known = EXAMPLES | EXAMPLES_OF_TESTS
    asked = {name: known[name][:1] if FAST else known[name] for name in operators}
    return [
        pytest.param(name, {f"q{n}": example for n, example in enumerate(examples)}, id=name)
        for name, examples in asked.items()
    ]


def cases_one_by_one(operator: str) -> list[Any]:
    """Each example by itself. Queries of Spark SQL share a budget of time, so several would wait for each other."""
    return [
        pytest.param(operator, {"q": example}, id=f"{operator}-{n}") for n, example in enumerate(EXAMPLES[operator])
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

    def ask(self, examples: Examples, prefix: str = "") -> None:
        for name, example in examples.items():
            self.db.execute(f"CREATE QUERY {prefix}{name} AS {example.sql}")

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
        """Run what is due. What is made beside the cycle is waited for: answers of Spark SQL, and cells of old readings."""
        self.clock.advance(SECOND)
        self.engine.drain()
        cycle, deadline = self.db.standing.store.cycle, time.monotonic() + EVALUATED_S
        while self._is_waiting(cycle):
            assert time.monotonic() < deadline, f"no answer for cycle {cycle}"
            time.sleep(0.005)

    def _is_waiting(self, cycle: int) -> bool:
        with self.db.standing.locked() as store:
            stand = [store.evaluations.stands_for(q) for q in store.operators if q in store.evaluations.by_query]
            return bool(store.slices.fills) or any((at or (0, 0))[0] < cycle for at in stand)

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


class Oracle:
    """DuckDB with the readings that were pushed."""

    def __init__(self, world: World) -> None:
        self._db = duckdb.connect()
        self._db.execute("CREATE TABLE places AS SELECT * FROM (VALUES ('north', 'x'), ('south', 'y')) t(place, owner)")
        self._db.execute(f"CREATE MACRO second() AS {SECOND}")
        places = {1: "north", 2: "south", 3: "west"}
        for name, rows in world.pushed.items():
            values = [(pos, r["id"], places[r["id"]], r["ts"], r["n"], r["v"]) for pos, r in enumerate(rows)]
            columns = dict(zip(("pos", "id", "place", "ts", "n", "v"), zip(*values, strict=True), strict=True))
            self._db.register(f"{name}_log", pa.table({column: list(found) for column, found in columns.items()}))

    def rows(self, sql: str, now_us: int | None) -> Counter[Row]:
        self._db.execute(f"CREATE OR REPLACE MACRO now_us() AS {now_us}")
        for name in ("a", "b"):
            inside = "ts BETWEEN now_us() - 60 * second() AND now_us()"
            self._db.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {name}_log WHERE {inside}")
        return Counter(tuple(map(repr, row)) for row in self._db.execute(sql).fetchall())

    def close(self) -> None:
        self._db.close()


def check_oracle(world: World, examples: Examples) -> None:
    """Every answer is the oracle's."""
    said = {name: example.oracle for name, example in examples.items() if example.oracle is not None}
    world.ask({name: examples[name] for name in said})
    for _ in range(6):
        world.some()
        world.settle()
        with closing(Oracle(world)) as oracle:
            for name, sql in said.items():
                held = world.db.standing.held(name)
                assert whole(held) == oracle.rows(sql, held.now_us), examples[name]
    for name in said:
        assert whole(world.db.standing.held(name)), examples[name]
    world.db.stop()


def check_trim(folder: Path, examples: Examples) -> None:
    """What is trimmed, released and folded into snapshots changes no answer at a kept cycle."""
    kept = World(folder / "kept", 5, pace=3)
    short = World(folder / "short", 5, cycles_keep=4, pace=3)
    kept.set_intervals(trim_cycles=1000)
    short.set_intervals(trim_cycles=1, snapshot_cycles=4)
    worlds = (kept, short)
    for world in worlds:
        world.ask(examples)
    for step in range(12):
        for world in worlds:
            world.some()
            world.cycle()
        if step % 3 == 2:
            release(short, examples)
        last = kept.db.standing.store.cycle
        for cycle in range(last - 1, last + 1) if step > 3 else ():  # readers of queries need the cycle before that
            for name, example in examples.items():
                assert short.rows(name, cycle) == kept.rows(name, cycle), example
    short.restart()
    for world in worlds:
        world.settle()
    for name, example in examples.items():
        assert short.rows(name) == kept.rows(name), example
    for world in worlds:
        world.db.stop()


def release(world: World, examples: Examples) -> None:
    """Give up all that can be made again, as a server does whose memory is short."""
    with world.db.standing.locked() as store:
        for name in examples:
            for query in world.db.definition(name).numbers:
                world.db.standing.ready.forget(query)
                world.db.standing.samples.forget(query)
                for state in store.states.values():
                    state.release(query)


def check_error(world: World, examples: Examples) -> None:
    """An error in a commit record fails its query and no other; resumed, that one is as if nothing had been."""
    for prefix in ("", "other_"):
        world.ask(examples, prefix)
    for step in range(6):
        world.some()
        if step == 3:
            failure = told(PenstockError("function_failed", "no such luck"))
            for name in examples:
                failed = world.db.definition(name).numbers[-1]
                world.engine.commits.queue.put((failed, "error", 0, 0, failure))
        world.cycle()
        for name in examples if step >= 3 else ():
            with pytest.raises(PenstockError, match="no such luck"):
                world.db.invoke(name)
            states = [world.db.query(each)["state"] for each in (name, f"other_{name}")]
            assert states == ["FAILED", "RUNNING"], examples[name]
    for change in ("PAUSE", "RESUME"):
        for name in examples:
            world.db.execute(f"ALTER QUERY {name} {change}")
        world.settle()
    for name, example in examples.items():
        assert world.rows(name) == world.rows(f"other_{name}") and any(world.rows(name)), example
    world.db.stop()


def has_final_rows(world: World, name: str) -> bool:
    return not str(world.db.query(name)["final"]).startswith("never")


def check_final(world: World, examples: Examples) -> None:
    """Each row that is final is told once, and stays; where no row ever is, asking for them is refused."""
    world.ask(examples)
    world.cycle()
    with_final = [name for name in examples if has_final_rows(world, name)]
    for name in examples.keys() - with_final:
        with pytest.raises(PenstockError) as refused:
            world.db.subscribe(name, final=True)
        assert refused.value.condition == "not_supported", examples[name]
    subscriptions = {name: world.db.subscribe(name, final=True) for name in with_final}
    once = {name: Counter[Row]() for name in with_final}
    for step in range(12):
        world.some()
        world.cycle()
        for name, subscription in subscriptions.items():
            while (event := subscription.next(0.0)) is not None:
                once[name] += counted(event.table)
        if step == 6:
            since = {name: subscription.cycle + 1 for name, subscription in subscriptions.items()}
            for subscription in subscriptions.values():
                subscription.close()
            world.restart()
            subscriptions = {name: world.db.subscribe(name, since[name], final=True) for name in with_final}
    for name, subscription in subscriptions.items():
        subscription.close()
        now, all_told, sql = counted(world.db.execute(f"SELECT * FROM {name} FINAL").table), once[name], examples[name]
        assert all_told and now <= all_told, sql
        assert now == all_told or "LAST " in sql.sql, sql  # a window of rows lets go of some
    world.db.stop()


def check_splits(folder: Path, examples: Examples, spark: Any = None) -> None:
    """Any split into cycles gives the same answer."""
    found: dict[str, list[Counter[Row]]] = {name: [] for name in examples}
    for every in (1, 3, 100):
        world = World(folder / f"every{every}", 3, spark)
        world.ask(examples)
        for step in range(1, 13):
            world.some()
            if step % every == 0:
                world.cycle()
        world.settle()
        for name, rows in found.items():
            rows.append(world.rows(name))
        world.db.stop()
    for name, (first, second, third) in found.items():
        assert first == second == third and any(first), examples[name]


def check_life(world: World, operator: str, examples: Examples) -> None:
    """One life: kept answers never change, changes add up, a late query equals an early one, a restart keeps, a drop frees."""
    world.ask(examples)
    for name, example in examples.items():
        assert plan_from_json(world.db.definition(name).plan).operator == operator, example
    world.cycle()
    subscriptions = {name: world.db.subscribe(name, changes=True) for name in examples}
    told = {name: Counter[Row]() for name in examples}
    held: list[tuple[str, AnswerAt, Counter[Row]]] = []
    for _ in range(10):
        world.some()
        world.cycle()
        for name, subscription in subscriptions.items():
            while (event := subscription.next(0.0)) is not None:
                for row in event.table.to_pylist():
                    sign = 1 if row.pop("op") == "+" else -1
                    told[name][tuple(repr(value) for value in row.values())] += sign
            assert +told[name] == world.rows(name) and min(told[name].values(), default=0) >= 0, examples[name]
            at = world.db.standing.held(name)
            held.append((name, at, whole(at)))
    for subscription in subscriptions.values():
        subscription.close()
    for name, at, rows in held:
        assert whole(at) == rows == world.rows(name, at.cycle), examples[name]

    world.ask(examples, "late_")
    world.settle()
    for name, example in examples.items():
        assert world.rows(f"late_{name}") == world.rows(name), example

    before, cycle = {name: world.rows(name) for name in examples}, world.db.standing.store.cycle
    world.restart()
    for name, example in examples.items():
        assert world.rows(name) == before[name] == world.rows(name, cycle), example

    dropped = {name: world.db.definition(f"late_{name}").id for name in examples}
    for name in examples:
        world.db.execute(f"DROP QUERY late_{name}")
    world.cycle()
    for name, query in dropped.items():
        assert world.db.standing.memory_of(query) == 0 and not world.db.standing.store.knows(query), examples[name]
        assert world.rows(name) == before[name], examples[name]
    world.db.stop()
