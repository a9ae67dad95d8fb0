"""Standing selections on the pipeline without Spark: log, cycles, commits and answers in one process, on one core.

Readings carry their own times, so NOW is the newest of them and a window holds as many tuples as it is said to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from bench.local_database import local_database
from bench.queries_server import named, sensors_sql, table_sql
from bench.query_workload import Selection, push_batch
from penstock.database.database import Database
from penstock.expr.expression import Expr
from penstock.sql.plan import SelectPlan, plan_from_json
from tests.support.local_engine import LocalEngine

RATE = 20_000
PUSH_ROWS = 5_000


class Bed:
    """A database whose cycles run when they are told to."""

    def __init__(self, database: Database, engine: LocalEngine) -> None:
        self.database, self.engine = database, engine
        self.pushed = 0
        interval = PUSH_ROWS / RATE
        self.task = {"seed": 50, "rate": RATE, "interval_s": interval, "origin_us": int((time.time() - 7_200) * 1e6)}

    def register(self, selections: Sequence[Selection], prefix: str = "q", strategy: str | None = None) -> list[str]:
        """Register them and read their history; their names. `strategy` says how their answers are kept."""
        queries = named(selections, RATE, prefix)
        self.database.register([{"name": name, "sql": sql, "strategy": strategy} for name, sql in queries])
        self.engine.drain()
        return [name for name, _ in queries]

    def push(self, tuples: int) -> None:
        """At least so many more tuples."""
        for index in range(self.pushed, self.pushed + -(-tuples // PUSH_ROWS)):
            self.database.push("readings", pa.table(push_batch(self.task, index, PUSH_ROWS, 0)))
            self.pushed += 1

    def rows_per_s(self, tuples: int, a_cycle: int) -> float:
        """Tuples per second of cycles, with so many in a cycle."""
        spent, done = 0.0, 0
        while done < tuples:
            before = self.pushed
            self.push(a_cycle)
            began = time.perf_counter()
            self.engine.drain()
            spent += time.perf_counter() - began
            done += (self.pushed - before) * PUSH_ROWS
        return done / spent

    def predicate(self, name: str) -> Expr | None:
        """What a query's plan asks of a reading."""
        plan = plan_from_json(self.database.definition(name).plan)
        assert isinstance(plan, SelectPlan)
        return plan.stream_predicate


@contextmanager
def local_bed(**settings: Any) -> Iterator[Bed]:
    with local_database(**settings) as (database, engine):
        database.execute(table_sql(own_times=True))
        database.execute(sensors_sql())
        yield Bed(database, engine)
