"""The same question on our server and on Spark, over the same readings, each as fast as it goes.

Our rate is from the first push until every row is committed and a subscriber was told of the last cycle. Spark's is that of
`bench/peers/spark_quality.py`, in a process of its own, in the same run.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bench.foundations import drain
from bench.joins_peers import HERE, run_peer
from bench.quality import Figures
from bench.queries_server import register
from bench.server import Server
from bench.statistics_aggregates import push
from bench.statistics_readers import Readers
from bench.statistics_windows import newest_with_rows

SENSORS, PER_SECOND, FILES_PER_BATCH = 1_000, 60_000, 5
ORIGIN_US = 1_700_000_000_000_000
SECONDS, MOST_WAIT_S = 120, 120.0
TABLE = "CREATE TABLE readings (sensor_id INT PRIMARY KEY, r STREAM (b DOUBLE)) WITH (time = 'valid')"


@dataclass(frozen=True, slots=True)
class Question:
    """What both are asked. `sensors` gives the sensor of each reading of a second; `checked` makes two numbers of our answer."""

    name: str
    sql: str
    kind: str  # how Spark evaluates it: see the script
    window_s: int
    sensors: Callable[[np.random.Generator, int], np.ndarray]
    checked: str


def second_of(question: Question, second: int) -> pa.RecordBatch:
    """The readings of one second, evenly spread; the same in every run."""
    chance = np.random.default_rng([49, second])
    us = ORIGIN_US + second * 1_000_000 + np.arange(PER_SECOND) * 1_000_000 // PER_SECOND
    columns = {
        "sensor_id": pa.array(question.sensors(chance, second).astype(np.int32)),
        "ts": pa.array(us, pa.timestamp("us", tz="UTC")),
        "b": pa.array(chance.random(PER_SECOND)),
    }
    return pa.record_batch(columns)


def measure(question: Question, settings: Any) -> Figures:
    """Rows/s of both, their ratio, and whether the last answers differ. `settings.seconds`: of how many seconds readings are."""
    say, name = settings.say, question.name
    seconds = max(question.window_s + 20, int(settings.seconds or SECONDS))
    with Server() as server:
        rate, ours = our_rate(say, server, question, seconds)
    spark = spark_rate(settings, question, seconds)
    theirs = spark["rows_per_s"] if spark is not None else None
    found: Figures = {f"{name}_rows_per_s": rate, f"{name}_spark_rows_per_s": theirs}
    found[f"{name}_ratio_spark"] = rate / theirs if theirs else None
    found[f"{name}_wrong"] = None if spark is None else float(not _alike(ours, spark["checked"]))
    return found


def _alike(ours: list[float], theirs: list[float]) -> bool:
    return bool(np.allclose(ours, theirs, rtol=1e-9))


def our_rate(say: Callable[[str], None], server: Server, question: Question, seconds: int) -> tuple[float, list[float]]:
    """Rows/s, and the last answer as two numbers."""
    say(f"{question.name}: our server, {seconds} s of {PER_SECOND:,} readings")
    server.sql(TABLE)
    server.sql(f"INSERT INTO readings VALUES {', '.join(f'({i}, NULL)' for i in range(SENSORS))}")
    register(server, [("asked", question.sql)])
    with Readers(server.url, ["asked"]) as readers:
        for second in range(5):
            push(server, second_of(question, second))
        drain(server)
        began = time.monotonic()
        for second in range(5, seconds):
            push(server, second_of(question, second))
        drain(server)
        last, deadline = newest_with_rows(server), time.monotonic() + MOST_WAIT_S
        while readers.newest.get("asked", 0) < last and not readers.errors and time.monotonic() < deadline:
            time.sleep(0.02)
        took = time.monotonic() - began
    if readers.errors or readers.newest.get("asked", 0) < last:
        told = f"the subscriber was told of cycle {readers.newest.get('asked')}, the last one is {last}"
        raise RuntimeError("; ".join([told, *readers.errors[:3]]))
    answer = server.sql(question.checked)["rows"][0]
    return (seconds - 5) * PER_SECOND / took, [float(value) for value in answer]


def spark_rate(settings: Any, question: Question, seconds: int) -> dict[str, Any] | None:
    """What the script says at its end; nothing where Spark failed, which is said."""
    with tempfile.TemporaryDirectory(prefix="penstock-peers-") as temporary:
        folder = Path(temporary) / "in"
        folder.mkdir()
        for second in range(seconds):
            batch = second_of(question, second)
            pa.parquet.write_table(pa.Table.from_batches([batch]), folder / f"{second:05d}.parquet")
        task = {
            "folder": str(folder),
            "kind": question.kind,
            "window_s": question.window_s,
            "files_per_batch": FILES_PER_BATCH,
            "rows_per_file": PER_SECOND,
        }
        path = Path(temporary) / "task.json"
        path.write_text(json.dumps(task))
        return run_peer(
            settings, f"spark, {question.name}", [sys.executable, str(HERE / "peers/spark_quality.py"), str(path)]
        )
