"""UNION ALL of two streams, a streaming query for each pair of conditions. `python spark_union.py TASK.json`

All queries run at once in one session and read the same files, into the cheapest sink. The rate is that of a query on average: rows of the batches
that ended since there were as many as queries, by the number of queries.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming import StreamingQuery

SCHEMA = "sensor_id int, ts timestamp, b double"
MOST_WAIT_S = 600.0


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def session() -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "6g",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def start(spark: SparkSession, task: dict[str, Any], where: list[str], checkpoint: Path) -> StreamingQuery:
    """In a pool of its own: within one, Spark runs jobs in the order they came, and one query may starve the others."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", checkpoint.name)
    found: DataFrame | None = None
    for folder, condition in zip(task["folders"], where, strict=True):
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", task["files_per_batch"]).parquet(folder)
        branch = rows.where(condition).select("sensor_id", "b", "ts")
        found = branch if found is None else found.unionAll(branch)
    assert found is not None
    writer = found.observe("found", count(lit(1)).alias("rows")).writeStream.format("noop")
    return writer.option("checkpointLocation", str(checkpoint)).start()


def done(query: StreamingQuery) -> tuple[int, int, int]:
    """Batches with rows, the rows that they read, and those that they found."""
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    found = sum(progress["observedMetrics"]["found"]["rows"] for progress in batches)
    return len(batches), sum(progress["numInputRows"] for progress in batches), found


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    spark, asked = session(), task["where"]
    say(event="begin")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoints:
        deadline = time.monotonic() + MOST_WAIT_S
        queries = [start(spark, task, where, Path(checkpoints) / f"c{n}") for n, where in enumerate(asked)]
        while sum(done(q)[0] for q in queries) < len(queries) and time.monotonic() < deadline:
            time.sleep(0.1)
        began, before = time.monotonic(), sum(done(q)[1] for q in queries)
        while min(done(q)[1] for q in queries) < task["rows"] and time.monotonic() < deadline:
            time.sleep(0.1)
        took, figures = time.monotonic() - began, [done(q) for q in queries]
        for query in queries:
            with suppress(Exception):  # a query that fails while it is stopped has been measured
                query.stop()
    rows = sum(read for _, read, _ in figures) - before
    say(
        event="end",
        rows_per_s=rows / len(queries) / took,
        measured_s=took,
        matched=sum(found for _, _, found in figures),
    )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
