"""What the answers of ten thousand standing selections cost, without Spark: tasks, record, fold, invocation, memory.

    python -m bench.answers [queries] [cycles]

The same planner, tasks, commits and answers as the server's, one after the other in this process.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from bench.local_database import local_database
from bench.query_workload import ATTRIBUTES, readings, selections
from penstock.database.database import Database
from tests.support import local_engine
from tests.support.manual_clock import ManualClock

ROWS_PER_CYCLE = 50_000
RATE = 250_000.0
WINDOW = 1 << 15
SEED = 4


class Stopwatch:
    """Milliseconds by name, of calls that are wrapped."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = {}

    def wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            found = call(*arguments)
            found = list(found) if isinstance(found, Iterator) else found
            self.ms.setdefault(name, []).append((time.perf_counter() - began) * 1000)
            return found

        return timed

    def line(self, name: str) -> str:
        ms = sorted(self.ms[name])
        return f"{name}: p50 {statistics.median(ms):.2f} ms, p99 {ms[int(len(ms) * 0.99)]:.2f} ms"


def run(queries: int, cycles: int) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    watch = Stopwatch()
    with local_database(clock) as (database, found_engine):
        engine: Any = found_engine
        columns = ", ".join(f"{name} INT" for name in ATTRIBUTES)
        database.execute(f"CREATE TABLE readings (sensor_id INT PRIMARY KEY, reading STREAM ({columns}))")
        database.execute("INSERT INTO readings VALUES " + ", ".join(f"({i}, NULL)" for i in range(100)))
        asked = selections(queries, SEED)
        for first in range(0, queries, 1000):
            some = enumerate(asked[first : first + 1000], first)
            database.register([(f"q{number}", chosen.sql(RATE)) for number, chosen in some])
        _cycle(database, clock, 0)  # compiles and reads definitions
        local_engine.run_task = watch.wrap("task (half a cycle's rows)", local_engine.run_task)
        engine._on_commit = watch.wrap("fold and tidy", engine._on_commit)
        engine.commits.write = watch.wrap("commit record", engine.commits.write)
        for index in range(1, cycles + 1):
            size = _cycle(database, clock, index)
        store = database.standing.store
        ids = {name: d.id for name, d in store.state.queries.items()}
        kept = statistics.mean(database.standing.memory_of(i) for i in ids.values())
        rows = statistics.mean(sum(k.end - k.first for k in s.sheets) for s in store.matches.stores.values())
        chosen_names = [f"q{n}" for n, s in enumerate(asked) if s.window_tuples == WINDOW][:300]
        invoke = watch.wrap(f"invocation, window of {WINDOW} rows", database.standing.invoke)
        found = [invoke(name).table.num_rows for name in chosen_names]
        print(f"{queries} queries, {ROWS_PER_CYCLE} rows a cycle")
        for name in watch.ms:
            print(" ", watch.line(name))
        print(f"  record: {size / 1000:.0f} KB; answers of {statistics.mean(found):.0f} rows on average")
        print(f"  memory: {kept / 1000:.1f} KB a query with {rows:.0f} rows in sheets")


def _cycle(database: Database, clock: ManualClock, index: int) -> int:
    clock.advance(round(ROWS_PER_CYCLE / RATE * 1e6))
    database.push("readings", pa.table(readings(SEED, index, ROWS_PER_CYCLE)))
    engine: Any = database.engine
    size: int = engine.cycle().results.nbytes
    return size


if __name__ == "__main__":
    wanted = [int(word) for word in sys.argv[1:]]
    run(wanted[0] if wanted else 10_000, wanted[1] if len(wanted) > 1 else 20)
