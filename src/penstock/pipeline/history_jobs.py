"""Run tasks that read history in Spark's workers: what an answer may not read in the server process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.cancellation import Cancellation, cancelled_by, current_cancellation
from penstock.errors import error
from penstock.pipeline.jobs import history_workers, statement_jobs
from penstock.pipeline.spark_sql import translate

# Answers are asked for by more threads than there are turns for statements.
JOBS_AT_ONCE = 2
_SCHEMA = "place bigint, result binary"
_turns = threading.Semaphore(JOBS_AT_ONCE)


def run_tasks(spark: SparkSession, tasks: Sequence[Callable[[], Any]], timeout_s: int) -> list[Any]:
    """The results of the tasks, each of which runs once in some worker. Without a statement it ends after `timeout_s`."""
    if not tasks:
        return []
    with _turns, ExitStack() as stack:
        if current_cancellation() is None:
            limit = Cancellation(standing=True)
            limit.limit(max(1, timeout_s))
            stack.enter_context(cancelled_by(limit))
        stack.enter_context(statement_jobs(spark))
        try:
            numbers = spark.range(0, len(tasks), 1, len(tasks))
            with history_workers(spark):
                frame = numbers.mapInArrow(_Runner(tuple(tasks)), _SCHEMA)
            found = frame.toArrow()
        except (PySparkException, Py4JJavaError) as failure:
            raise translate(failure) from failure
        except (Py4JNetworkError, ConnectionError, EOFError) as lost:
            raise error("not_ready", detail="Spark is being restarted", hint="ask again in a moment") from lost
    results = dict(zip(found.column("place").to_pylist(), found.column("result"), strict=True))
    return [pickle.loads(results[place].as_buffer()) for place in range(len(tasks))]


class _Runner:
    """Runs the tasks whose numbers a worker gets."""

    def __init__(self, tasks: tuple[Callable[[], Any], ...]) -> None:
        self._tasks = tasks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                result = pickle.dumps(self._tasks[place](), pickle.HIGHEST_PROTOCOL)
                yield pa.RecordBatch.from_arrays([pa.array([place]), pa.array([result])], ["place", "result"])
