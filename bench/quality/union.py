"""UNION ALL of two streams as fifty standing queries, each with a subscriber on our server, and each a streaming query on Spark.

Both read the same rows, each as fast as it goes. Our rate is from the first push until every row is committed and every subscriber was told of
the last cycle. Spark's rows are in files before it begins. It is measured from when it has ended as many batches as there are queries.
`union_one_ratio_spark` is the same with one query alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
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

COUNTS = {"union": 50, "union_one": 1}
STREAMS, SENSORS, PER_SECOND, FILES_PER_BATCH = ("s0", "s1"), 1_000, 20_000, 5
SECONDS, WARM_S, MOST_WAIT_S = 40, 5, 600.0
ORIGIN_US = 1_700_000_000_000_000


def run(settings: Any) -> Figures:
    seconds = max(2 * WARM_S, int(settings.seconds or SECONDS))
    found: Figures = {}
    for name, count in COUNTS.items():
        with Server() as server:
            rate, matched = our_rate(settings, server, count, seconds)
        spark = spark_rate(settings, count, seconds)
        theirs = spark["rows_per_s"] if spark is not None else None
        found |= {f"{name}_rows_per_s": rate, f"{name}_spark_rows_per_s": theirs}
        found[f"{name}_ratio_spark"] = rate / theirs if theirs else None
        found[f"{name}_wrong"] = None if spark is None else float(spark["matched"] != matched)
    return found


def conditions(count: int) -> list[tuple[str, str]]:
    """What each query asks of either stream: one to two percent of the rows."""
    shares = [0.01 + 0.01 * place / count for place in range(count)]
    return [(f"b > {1 - share:.6f}", f"b < {share:.6f}") for share in shares]


def second_of(stream: int, second: int) -> pa.RecordBatch:
    """The readings of one second, evenly spread; the same in every run."""
    chance = np.random.default_rng([48, stream, second])
    us = ORIGIN_US + second * 1_000_000 + np.arange(PER_SECOND) * 1_000_000 // PER_SECOND
    columns = {
        "sensor_id": pa.array(chance.integers(0, SENSORS, PER_SECOND).astype(np.int32)),
        "ts": pa.array(us, pa.timestamp("us", tz="UTC")),
        "b": pa.array(chance.random(PER_SECOND)),
    }
    return pa.record_batch(columns)


def our_rate(settings: Any, server: Server, count: int, seconds: int) -> tuple[float, int]:
    """Rows/s, and how many rows all queries have found."""
    settings.say(f"union: our server, {count} queries, {seconds} s of {len(STREAMS) * PER_SECOND:,} readings")
    for name in STREAMS:
        server.sql(f"CREATE TABLE {name} (sensor_id INT PRIMARY KEY, r STREAM (b DOUBLE)) WITH (time = 'valid')")
        server.sql(f"INSERT INTO {name} VALUES {', '.join(f'({i}, NULL)' for i in range(SENSORS))}")
    selects = [
        " UNION ALL ".join(
            f"SELECT sensor_id, b, ts FROM {name} WHERE {where}" for name, where in zip(STREAMS, both, strict=True)
        )
        for both in conditions(count)
    ]
    queries = [(f"q{n}", f"{select} BEGIN (NOW - 10 SECONDS) END (NOW)") for n, select in enumerate(selects)]
    register(server, queries)
    names = [name for name, _ in queries]
    with Readers(server.url, names) as readers:
        for second in range(WARM_S):
            _push(server, second)
        drain(server)
        began = time.monotonic()
        for second in range(WARM_S, seconds):
            _push(server, second)
        drain(server)
        last, deadline = newest_with_rows(server), time.monotonic() + MOST_WAIT_S
        while min(readers.newest.get(name, 0) for name in names) < last and time.monotonic() < deadline:
            if readers.errors:
                raise RuntimeError(readers.errors[0])
            time.sleep(0.02)
        took = time.monotonic() - began
    matched = int(server.sql("SELECT SUM(matched) AS m FROM penstock.queries")["rows"][0][0])
    return (seconds - WARM_S) * len(STREAMS) * PER_SECOND / took, matched


def _push(server: Server, second: int) -> None:
    for stream, name in enumerate(STREAMS):
        push(server, second_of(stream, second), name)


def spark_rate(settings: Any, count: int, seconds: int) -> dict[str, Any] | None:
    """What the script says at its end; nothing where Spark failed, which is said."""
    with tempfile.TemporaryDirectory(prefix="penstock-peers-") as temporary:
        for stream, name in enumerate(STREAMS):
            (Path(temporary) / name).mkdir()
            for second in range(seconds):
                rows = pa.Table.from_batches([second_of(stream, second)])
                pa.parquet.write_table(rows, Path(temporary) / name / f"{second:05d}.parquet")
        task = {
            "folders": [str(Path(temporary) / name) for name in STREAMS],
            "where": conditions(count),
            "files_per_batch": FILES_PER_BATCH,
            "rows": seconds * len(STREAMS) * PER_SECOND,
        }
        path = Path(temporary) / "task.json"
        path.write_text(json.dumps(task))
        command = [sys.executable, str(HERE / "peers" / "spark_union.py"), str(path)]
        return run_peer(settings, f"spark, {count} unions", command)
