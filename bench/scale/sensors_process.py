"""The same 10 000 sensors and 100 aggregates with all of their 31 days, in one process without Spark.

Through a server, 446 million readings take longer than a part may. Here the log, the fill, the cells, their files and the answers are those
of a server; jobs run one after the other in the process, and cycles when they are told to. So it measures memory, answers and a start, no cycle.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.generator import percentile
from bench.local_database import local_database
from bench.scale import Figures
from bench.scale.sensors import CHECKED, CHECKED_GROUPS, SENSORS, SLICES_MB, Aggregate, aggregates
from bench.scale.workload import DAY_MINUTES, MINUTE_US, SITES, TABLE, Minutely, site_of
from penstock.database.database import Database
from tests.support.local_engine import LocalEngine

DAYS = 31
PUSH_ROWS = 600_000
PATIENCE_S = 1_200.0
CYCLES_PER_SNAPSHOT = 200


def measure_sensors_in_process(say: Callable[[str], None], days: int = DAYS, sensors: int = SENSORS) -> Figures:
    data = Minutely(sensors, (int(time.time()) // 60 - (days + 1) * DAY_MINUTES) * MINUTE_US)
    chosen = {f"q{number}": asked for number, asked in enumerate(aggregates())}
    sent = sensors * DAY_MINUTES * days
    with tempfile.TemporaryDirectory(prefix="penstock-process-") as temporary:
        folder = Path(temporary) / "data"
        with local_database(folder=folder, slices_memory_mb=SLICES_MB) as (database, engine):
            found, sent = first_life(say, database, engine, data, chosen, sent)
        found["process31_files_mb"] = sum(path.stat().st_size for path in folder.glob("slices/*/*")) / 1e6
        began = time.monotonic()
        with local_database(folder=folder, slices_memory_mb=SLICES_MB) as (database, _):
            found["process31_start_s"] = time.monotonic() - began
            found["process31_filling_after_start"] = len(database.standing.store.slices.fills)
            ask(database, chosen)
            found["process31_start_to_answers_s"] = time.monotonic() - began
            found["process31_wrong_after_start"] = wrong(say, database, chosen, data, sent)
    return found | {"process31_days": days, "process31_rows": sent}


def first_life(
    say: Callable[[str], None],
    database: Database,
    engine: LocalEngine,
    data: Minutely,
    chosen: dict[str, Aggregate],
    sent: int,
) -> tuple[Figures, int]:
    """Push, fill, answer, and go on until there is a snapshot; how many readings there are then."""
    database.execute(TABLE)
    for statement in data.inserts():
        database.execute(statement)
    began = time.monotonic()
    for first in range(0, sent, PUSH_ROWS):
        push(database, engine, data, first, min(sent, first + PUSH_ROWS))
    found: Figures = {"process31_push_s": time.monotonic() - began}
    say(f"process31: {sent:,} rows in {found['process31_push_s']:.0f} s; now the queries")
    began = time.monotonic()
    for name, asked in chosen.items():
        database.execute(f"CREATE QUERY {name} AS {asked.sql()}")
    engine.drain()
    for name in chosen:
        if not database.standing.is_ready(name, PATIENCE_S):
            raise RuntimeError(f"{name} is not filled after {PATIENCE_S:.0f} s")
    found["process31_fill_s"] = time.monotonic() - began
    ask(database, chosen)
    for _ in range(CYCLES_PER_SNAPSHOT):
        push(database, engine, data, sent, sent + 1)
        sent += 1
    spent = sorted(ask(database, chosen))
    found["process31_answer_p50_ms"], found["process31_answer_p99_ms"] = percentile(spent, 0.5), percentile(spent, 0.99)
    found["process31_cells_mb"] = sum(database.query(name)["memory"] for name in chosen) / 1e6
    found["process31_wrong"] = wrong(say, database, chosen, data, sent)
    return found, sent


def push(database: Database, engine: LocalEngine, data: Minutely, first: int, end: int) -> None:
    database.push("m", pa.Table.from_batches([data.readings(first, end)]))
    engine.drain()


def ask(database: Database, chosen: dict[str, Aggregate]) -> list[float]:
    """Milliseconds of each answer."""
    spent = []
    for name in chosen:
        began = time.perf_counter()
        database.invoke(name)
        spent.append((time.perf_counter() - began) * 1000)
    return spent


def wrong(
    say: Callable[[str], None], database: Database, chosen: dict[str, Aggregate], data: Minutely, sent: int
) -> int:
    """How many of some answers are not what the readings give, each in some groups."""
    rng, bad = np.random.default_rng(63), 0
    for name in rng.permutation(list(chosen))[:CHECKED].tolist():
        asked = chosen[name]
        table = database.invoke(name).table
        answer = dict(zip(*(table.column(place).to_pylist() for place in (0, 1)), strict=True))
        groups = rng.integers(0, data.sensors if asked.key == "sid" else SITES, CHECKED_GROUPS).tolist()
        for group in groups:
            right = asked.expected(data, group, data.newest_us(sent), sent)
            if not math.isclose(answer.get(group if asked.key == "sid" else site_of(group), math.nan), right):
                bad += 1
                say(f"[bold red]process31: {asked} is wrong for {group}")
    return bad
