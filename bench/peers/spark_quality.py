"""Questions of `bench.quality` on Spark. `python spark_quality.py TASK.json`

`sessions GAP`: a streaming query with session_window, which gives sessions that the watermark has passed to the cheapest sink. `topk MOST`:
the window as a batch for each trigger, because streaming refuses ROW_NUMBER. A trigger has as many rows as one of our cycles under load.
The last window is evaluated once more as a batch, for the check.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

SCHEMA = "sensor_id int, ts timestamp, b double"
WARM_FILES = 10


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def session() -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def window_of(spark: SparkSession, files: list[str], window_s: int) -> DataFrame:
    """The readings of the last seconds of some files; `rows` stands for them in SQL."""
    spark.read.schema(SCHEMA).parquet(*files[-window_s - 1 :]).createOrReplaceTempView("some")
    since = f"(SELECT MAX(ts) FROM some) - INTERVAL {window_s} SECONDS"
    rows = spark.sql(f"SELECT * FROM some WHERE ts >= {since}")
    rows.createOrReplaceTempView("rows")
    return rows


def topk(spark: SparkSession, task: dict[str, Any], most: str) -> tuple[float, int, str]:
    """Seconds and rows of all triggers but the first ones, and the question."""
    files = sorted(map(str, Path(task["folder"]).glob("*.parquet")))
    asked = (
        "SELECT sensor_id, b, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY sensor_id ORDER BY b DESC) AS place"
        f" FROM rows) WHERE place <= {most}"
    )
    took, rows = 0.0, 0
    for end in range(task["files_per_batch"], len(files) + 1, task["files_per_batch"]):
        began = time.monotonic()
        window_of(spark, files[:end], task["window_s"])
        spark.sql(asked).write.format("noop").mode("overwrite").save()
        if end > max(WARM_FILES, task["window_s"]):  # the window is as long as it gets
            took, rows = took + time.monotonic() - began, rows + task["files_per_batch"] * task["rows_per_file"]
    return took, rows, f"SELECT COUNT(*), SUM(b) FROM ({asked})"


def sessions(spark: SparkSession, task: dict[str, Any], gap: str) -> tuple[float, int, str]:
    """Seconds and rows of all batches but the first ones."""
    asked = (
        "SELECT sensor_id, session_window.start AS window_start, session_window.end AS window_end, COUNT(*) AS n, AVG(b) AS mean"
        f" FROM {{source}} GROUP BY sensor_id, session_window(ts, '{gap} seconds')"
    )
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", task["files_per_batch"])
    stream.parquet(task["folder"]).withWatermark("ts", "0 seconds").createOrReplaceTempView("stream")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = spark.sql(asked.format(source="stream")).writeStream.outputMode("append").format("noop")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [each for each in query.recentProgress if each["numInputRows"]]
    warm = WARM_FILES // task["files_per_batch"]
    took = sum(each["durationMs"]["triggerExecution"] for each in batches[warm:]) / 1000
    rows = sum(each["numInputRows"] for each in batches[warm:])
    return took, rows, f"SELECT COUNT(*), SUM(n * mean) FROM ({asked.format(source='rows')})"


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    kind, parameter = task["kind"].split()
    spark = session()
    say(event="begin")
    took, rows, check = (sessions if kind == "sessions" else topk)(spark, task, parameter)
    window_of(spark, sorted(map(str, Path(task["folder"]).glob("*.parquet"))), task["window_s"])
    checked = [float(value) for value in spark.sql(check).collect()[0]]
    say(event="end", rows_per_s=rows / took, measured_s=took, checked=checked)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
