"""A data folder with weeks of readings, made in this process without Spark: a server would take longer than a part may.

The log, the fill, the cells, their files and the snapshot are those of a server. Jobs run one after the other in the process, and
cycles when they are told to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from bench.generator import percentile
from bench.local_database import local_database
from bench.scale import Figures
from bench.scale.workload import TABLE, Minutely
from penstock.database.database import Database
from tests.support.local_engine import LocalEngine

PUSH_ROWS = 600_000
PATIENCE_S = 1_200.0
CYCLES_PER_SNAPSHOT = 200


def make_folder(
    say: Callable[[str], None],
    folder: Path,
    data: Minutely,
    queries: Mapping[str, str],
    sent: int,
    slices_memory_mb: int,
) -> tuple[Figures, int]:
    """Push, fill, answer, and go on until there is a snapshot; how many readings there are then."""
    with local_database(folder=folder, slices_memory_mb=slices_memory_mb) as (database, engine):
        database.execute(TABLE)
        for statement in data.inserts():
            database.execute(statement)
        began = time.monotonic()
        for first in range(0, sent, PUSH_ROWS):
            push(database, engine, data, first, min(sent, first + PUSH_ROWS))
        found: Figures = {"sensors10k_push_s": time.monotonic() - began}
        say(f"sensors10k: {sent:,} rows in {found['sensors10k_push_s']:.0f} s; now the queries")
        began = time.monotonic()
        database.register([(name, sql) for name, sql in queries.items()])
        engine.drain()
        for name in queries:
            if not database.standing.is_ready(name, PATIENCE_S):
                raise RuntimeError(f"{name} is not filled after {PATIENCE_S:.0f} s")
        found["sensors10k_fill_s"] = time.monotonic() - began
        say(f"sensors10k: filled in {found['sensors10k_fill_s']:.0f} s; answers, and cycles until there is a snapshot")
        ask(database, queries)
        for _ in range(CYCLES_PER_SNAPSHOT):
            push(database, engine, data, sent, sent + 1)
            sent += 1
        spent = sorted(ask(database, queries))
    found["sensors10k_answer_process_p50_ms"] = percentile(spent, 0.5)
    found["sensors10k_answer_process_p99_ms"] = percentile(spent, 0.99)
    found["sensors10k_files_mb"] = sum(path.stat().st_size for path in folder.glob("slices/*/*")) / 1e6
    return found, sent


def push(database: Database, engine: LocalEngine, data: Minutely, first: int, end: int) -> None:
    database.push("m", pa.Table.from_batches([data.readings(first, end)]))
    engine.drain()


def ask(database: Database, names: Mapping[str, str]) -> list[float]:
    """Milliseconds of each answer."""
    spent = []
    for name in names:
        began = time.perf_counter()
        database.invoke(name)
        spent.append((time.perf_counter() - began) * 1000)
    return spent
