"""Two streams that are joined, a stand-in for Spark above them, and what the join means by definition."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.clock import SECOND
from penstock.pipeline.history import InputFiles, InputFilesReader
from penstock.sql.plan import SparkPlan, plan_from_json
from tests.support.pipe import Pipe

ORIGIN = 1_700_000_000 * SECOND
PAIRS = "FROM left_side a, right_side b WINDOW(a,b) = 2 SECONDS WHERE a.k = b.k AND b.n < 900"
COUNTED = f"SELECT a.k, COUNT(*) AS n, MAX(b.n) AS most, MAX(ts) AS last {PAIRS} GROUP BY ROLLUP (a.k)"


class Runner:
    """In Spark's place: keeps the rows that it is given and answers how many they are."""

    def __init__(self) -> None:
        self.asked = 0
        self.given: dict[str, list[dict[str, Any]]] = {}
        self.in_files: dict[str, tuple[Path, ...]] = {}

    def run(self, plan: SparkPlan, _: Any, given: dict[str, pa.Table | InputFiles]) -> pa.Table:
        self.asked += 1
        for relation, handed in given.items():
            self.in_files[f"{plan.sql} {relation}"] = handed.files if isinstance(handed, InputFiles) else ()
            self.given[f"{plan.sql} {relation}"] = rows_of(handed).to_pylist()
        count = sum(rows_of(rows).num_rows for rows in given.values())
        return pa.table({name: pa.array([count]) for name, _ in plan.outputs})


def rows_of(given: pa.Table | InputFiles) -> pa.Table:
    """Rows as a worker of Spark gets them."""
    if isinstance(given, pa.Table):
        return given
    reader = InputFilesReader(given.options())
    schema = pa.schema([pa.field(f.name, f.type.to_arrow()) for f in given.fields])
    return pa.Table.from_batches([b for task in reader.partitions() for b in reader.read(task)], schema)


class Life(Pipe):
    """Two streams with keys, a join over them, and what it means by definition."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.runner = Runner()
        self.rows: dict[str, list[tuple[int, int, int]]] = {"left_side": [], "right_side": []}
        self._rng = np.random.default_rng(5)
        super().__init__(folder, **{"spark": lambda: self.runner, "cycles_keep": 4, **settings})
        for table in self.rows:
            self.db.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, zone INT, r STREAM (k INT, n INT))"
                " WITH (time = 'valid', out_of_order = 'accept', max_ahead = '100000 DAYS')"
            )
            self.db.execute(f"INSERT INTO {table} VALUES (1, 1, NULL)")
        self.engine.drain()

    def execute(self, sql: str) -> None:
        """A statement, with the cycle that takes it in."""
        self.db.execute(sql)
        self.engine.drain()

    def push(self, count: int = 30, step_us: int = SECOND // 10) -> None:  # type: ignore[override]
        for table, rows in self.rows.items():
            first = len(rows)
            late = self._rng.integers(0, 3, count) * SECOND
            made = [
                (ORIGIN + (first + i) * step_us - int(late[i]), int(self._rng.integers(0, 5)), first + i)
                for i in range(count)
            ]
            rows += made
            self.db.push(table, [{"id": 1, "ts": ts, "k": k, "n": n} for ts, k, n in made])
        self.engine.drain()

    def pairs(self) -> list[tuple[int, int, int, int]]:
        """(ts a, n a, ts b, n b) of every pair that the join means."""
        return sorted(
            (at, an, bt, bn)
            for at, ak, an in self.rows["left_side"]
            for bt, bk, bn in self.rows["right_side"]
            if ak == bk and abs(at - bt) <= 2 * SECOND and bn < 900
        )

    def now(self) -> int:
        return min(max(ts for ts, _, _ in rows) for rows in self.rows.values())

    def settled(self, name: str) -> Any:
        """The answer of a query once it stands for the last cycle that brought something."""
        query = self.db.definition(name).id

        def stands() -> bool:
            with self.db.standing.locked() as store:
                found = store.evaluations.stands_for(query)
                return found is not None and found[0] >= store.moved

        until(stands)
        return self.db.invoke(name)

    def given(self, name: str) -> list[dict[str, Any]]:
        plan = plan_from_json(self.db.definition(name).plan)
        assert isinstance(plan, SparkPlan)
        return self.runner.given[f"{plan.sql} {plan.relations[0].name}"]


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


def last_times(life: Life, name: str) -> list[tuple[int, int]]:
    """(the latest time of a pair, n of b) of the rows below a query."""
    rows = life.given(name)
    return sorted((micros(max(r["a.ts"], r["b.ts"])), r["b.n"]) for r in rows)


def micros(value: Any) -> int:
    return int(value.timestamp()) * SECOND + value.microsecond


def upto_now(life: Life) -> list[tuple[int, int, int, int]]:
    return [p for p in life.pairs() if max(p[0], p[2]) <= life.now()]
