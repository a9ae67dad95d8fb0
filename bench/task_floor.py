"""The least that a Python task takes through Spark: `python -m bench.task_floor` prints it as JSON.

A session with a server's settings runs jobs of one task that hands back the row it gets. Spark says how long the task took, the
clock how long the job with its planning and its answer.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.pipeline.session import start_session, stop_session
from penstock.settings import Settings

TIMES, WARM = 100, 200  # the JVM compiles what it runs often: after 200 jobs a task takes half as long
_SEEN_S = 10.0


def floors_ms(spark: SparkSession, times: int) -> tuple[list[float], list[float]]:
    """The times of the tasks and of their jobs, one after the other."""
    frame = spark.range(0, 1, 1, 1).mapInArrow(_hand_back, "id BIGINT")
    tasks, jobs = [], []
    for number in range(times):
        group = f"floor-{time.monotonic_ns()}-{number}"
        spark.sparkContext.setJobGroup(group, "floor")
        began = time.monotonic()
        frame.toArrow()
        jobs.append((time.monotonic() - began) * 1000)
        tasks.append(_task_ms(spark, group))
    return tasks, jobs


def _hand_back(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _task_ms(spark: SparkSession, group: str) -> float:
    """How long the one task of a group of jobs took, as soon as Spark's own books say so."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + _SEEN_S
    while time.monotonic() < deadline:
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                found = store.taskList(stage, 0, 1)
                if found.size() and found.apply(0).duration().isDefined():
                    return float(found.apply(0).duration().get())
        time.sleep(0.002)
    raise RuntimeError("Spark does not say how long the task took")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-floor-") as scratch:
        spark = start_session(Settings(), Path(scratch))
        try:
            floors_ms(spark, WARM)
            tasks, jobs = floors_ms(spark, TIMES)
        finally:
            stop_session(spark)
    print(json.dumps({"task_ms": statistics.median(tasks), "job_ms": statistics.median(jobs)}))


if __name__ == "__main__":
    main()
