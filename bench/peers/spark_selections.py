"""One Spark streaming query per standing selection, more and more of them. `python spark_selections.py TASK.json`

A file of readings comes in every second, every query reads it and filters it into the cheapest sink. As many are borne as
keep up: the 99th percentile of their batches stays below a bound and they read what came.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

SCHEMA = "sensor_id int, a int, b int, c int, d int"
SETTLE_S = 5.0


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def session() -> SparkSession:
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "6g"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def feed(source: str, folder: Path, stop: threading.Event) -> None:
    """A copy of the file every second, written aside and renamed."""
    number = 0
    began = time.monotonic()
    while not stop.wait(max(0.0, began + number - time.monotonic())):
        aside = folder / f".{number}.tmp"
        shutil.copyfile(source, aside)
        aside.rename(folder / f"{number:06d}.parquet")
        number += 1


def start(spark: SparkSession, folder: Path, where: str, checkpoint: Path) -> StreamingQuery:
    chosen = spark.readStream.schema(SCHEMA).parquet(str(folder)).where(where)
    writer = chosen.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="1 second").start()


def batches(query: StreamingQuery, since: float) -> list[dict[str, Any]]:
    found = []
    for progress in query.recentProgress:
        began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
        if began >= since:
            found.append({"ms": progress["durationMs"]["triggerExecution"], "rows": progress["numInputRows"]})
    return found


def level(spark: SparkSession, task: dict[str, Any], count: int) -> dict[str, Any]:
    """So many queries at once, all new: an older one would have had a start."""
    stop = threading.Event()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) / "in"
        folder.mkdir()
        began = time.monotonic()
        queries = [
            start(spark, folder, task["where"][n % len(task["where"])], Path(temporary) / f"c{n}") for n in range(count)
        ]
        started_s = time.monotonic() - began
        feeder = threading.Thread(target=feed, args=(task["file"], folder, stop), daemon=True)
        feeder.start()
        time.sleep(SETTLE_S)
        since = time.time()
        time.sleep(task["hold_s"])
        found = [batches(query, since) for query in queries]
        stop.set()
        feeder.join()
        for query in queries:
            with suppress(Exception):  # a query that fails while it is stopped has been measured
                query.stop()
    times = sorted(b["ms"] for one in found for b in one if b["rows"])
    slowest = min(sum(b["rows"] for b in one) for one in found)
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))] if times else float("inf")
    # A batch that is running or began before does not count: the least is two seconds' rows short.
    enough = slowest >= task["rate"] * (task["hold_s"] - 3)
    borne = p99 <= task["bound_ms"] and enough
    return {"queries": count, "p50_ms": times[len(times) // 2] if times else None, "p99_ms": p99 if times else None,
            "started_s": started_s, "rows_least": slowest, "borne": borne}  # fmt: skip


def most_borne(spark: SparkSession, task: dict[str, Any]) -> list[dict[str, Any]]:
    """1, 2, 4, ... until twice in a row too many, then once in the middle."""
    levels: list[dict[str, Any]] = []
    deadline, count, misses = time.monotonic() + task["budget_s"], 1, 0
    while time.monotonic() < deadline and misses < 2:
        levels.append(level(spark, task, count))
        say(event="level", **levels[-1])
        misses = 0 if levels[-1]["borne"] else misses + 1
        count *= 2 if levels[-1]["borne"] else 1
    if misses and count >= 4 and time.monotonic() < deadline:
        levels.append(level(spark, task, count * 3 // 4))
    return levels


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    spark = session()
    level(spark, {**task, "hold_s": 3}, 1)
    say(event="begin")
    levels = most_borne(spark, task)
    say(event="end", levels=levels, borne=max((one["queries"] for one in levels if one["borne"]), default=0))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
