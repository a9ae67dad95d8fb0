"""Load what tasks need into Spark's workers while the streaming query starts, instead of in the first cycle."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

_log = logging.getLogger("penstock.pipeline")


def warm_workers(spark: SparkSession) -> None:
    """One small task per core. Soft: whatever goes wrong here, the first cycle does it anyway."""
    cores = spark.sparkContext.defaultParallelism
    try:
        spark.range(0, cores, 1, cores).mapInArrow(_load, "id BIGINT").toArrow()
    except Exception as failure:
        _log.debug("workers could not be warmed: %s", failure)


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import numpy as np

    from penstock.operators.expr import Call, Column, Literal
    from penstock.operators.newest import newest_by_version
    from penstock.operators.predicates import PredicateIndex
    from penstock.types import BOOLEAN, DOUBLE

    for module in ("penstock.pipeline.cycle", "penstock.pipeline.history"):
        importlib.import_module(module)
    above = Call("gt", (Column("x", DOUBLE), Literal(0.5, DOUBLE)), BOOLEAN)
    vids = np.zeros(8, np.int32)
    versions = pa.table({"_sid": pa.array([0], pa.int32())})
    list(
        PredicateIndex([(1, None, above), (2, None, None)]).match({"x": pa.array(np.linspace(0, 1, 8))}, vids, versions)
    )
    newest_by_version(vids, np.zeros(8, np.int64))
    yield from batches
