"""Sliding averages on Spark's own windowed aggregation, a streaming query each. `python spark_windows.py TASK.json`

All queries run at once in one session and read the same files, each at its own pace, in batches of as many rows as one of
our cycles. A query's state has as many windows as its panes and sensors, in memory; results go to the cheapest sink. The rate
is that of a query on average: rows of all batches that ended while it was measured, by the number of queries.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import avg, window
from pyspark.sql.streaming import StreamingQuery

SCHEMA = "sensor_id int, b double, ts timestamp"
MOST_WAIT_S = 400.0


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def session() -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "2",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def start(spark: SparkSession, task: dict[str, Any], asked: list[int], checkpoint: Path) -> StreamingQuery:
    """Each batch gives the windows that it changed, as our subscribers get them.

    In a pool of its own: within one, Spark runs jobs in the order they came, and one query may starve the others.
    """
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", checkpoint.name)
    width, step = asked
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", task["files_per_batch"]).parquet(task["folder"])
    panes = window("ts", f"{width} seconds", f"{step} seconds")
    found = rows.withWatermark("ts", "1 second").groupBy(panes, "sensor_id").agg(avg("b").alias("v"))
    writer = found.writeStream.outputMode("update").format("noop").option("checkpointLocation", str(checkpoint))
    return writer.start()


def done(query: StreamingQuery) -> tuple[int, int]:
    """Batches with rows and their rows, since the query began."""
    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    return len(sizes), sum(sizes)


def level(spark: SparkSession, task: dict[str, Any], count: int, hold_s: float) -> dict[str, Any]:
    """So many at once: measured from when there are as many batches as queries until time is over or all is read.

    Not from when each has ended one: between pools with nothing running Spark takes the first by name, so that the last
    may wait until others have read everything. Rows of all of them count, whoever got his turn.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        began = time.monotonic()
        windows = task["windows"]
        queries = [start(spark, task, windows[n % len(windows)], Path(temporary) / f"c{n}") for n in range(count)]
        while sum(done(q)[0] for q in queries) < count and time.monotonic() - began < MOST_WAIT_S:
            time.sleep(0.2)
        settled_s = time.monotonic() - began
        before, at = [done(q)[1] for q in queries], time.monotonic()
        while time.monotonic() - at < hold_s and min(done(q)[1] for q in queries) < task["rows"]:
            time.sleep(0.05)
        after, took = [done(q)[1] for q in queries], time.monotonic() - at
        broken = [str(q.exception())[:300] for q in queries if q.exception() is not None]
        for query in queries:
            with suppress(Exception):  # a query that fails while it is stopped has been measured
                query.stop()
    read = sum(after) - sum(before)
    return {"queries": count, "rows_per_s": read / took / count, "batches_rows": read, "measured_s": took,
            "settled_s": settled_s, "broken": broken}  # fmt: skip


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    spark = session()
    level(spark, task, 1, 3.0)
    say(event="begin")
    levels = []
    for count in task["counts"]:
        # A round of many queries takes long, and a batch counts when it ends: two rounds or more.
        levels.append(level(spark, task, count, task["hold_s"] * (4 if count >= 100 else 1)))
        say(event="level", **levels[-1])
    say(event="end", levels=levels)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
