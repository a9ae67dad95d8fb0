"""Load what tasks need into Spark's workers while the streaming query starts, instead of in the first cycle."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.pipeline.jobs import adhoc_parallelism, cycle_workers, history_workers

_log = logging.getLogger("penstock.pipeline")


def warm_workers(spark: SparkSession) -> None:
    """Run one small task per core, and some for statements. Errors are ignored: the first cycle loads what is missing."""
    cores = spark.sparkContext.defaultParallelism
    tasks = adhoc_parallelism(cores)
    try:
        with cycle_workers():
            frame = spark.range(0, cores, 1, cores).mapInArrow(_load, "id BIGINT")
        frame.toArrow()
        with history_workers(spark):
            frame = spark.range(0, tasks, 1, tasks).mapInArrow(_load_history, "id BIGINT")
        frame.toArrow()
    except Exception as failure:
        _log.debug("workers could not be warmed: %s", failure)


def _load_history(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    importlib.import_module("penstock.pipeline.history")
    yield from batches


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for module in ("penstock.cycle.worker", "penstock.pipeline.history"):
        importlib.import_module(module)
    # Here, because the server need not load it. Even to read a kernel from its file takes as long as a small cycle.
    from penstock.pipeline.kernel_warmup import OF_WORKERS

    for rehearse in OF_WORKERS:
        rehearse()
    yield from batches
