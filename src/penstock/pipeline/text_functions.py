"""Functions of Spark's session for regular expressions: those of Java backtrack, and no task can be interrupted in one.

They run in Python workers of statements (docs/decisions/0027-regular-expressions.md). The planner writes their names;
no statement can call them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import ArrowUDFType, arrow_udf  # type: ignore[attr-defined]

from penstock.functions.regular_expressions import FUNCTIONS, SPARK_PREFIX, call_text_function
from penstock.pipeline.jobs import history_workers


def register_functions(session: SparkSession) -> None:
    """Add the functions to the session, once."""
    with history_workers(session):
        for name, function in FUNCTIONS.items():
            session.udf.register(SPARK_PREFIX + name, _spark_function(name, function.type.to_spark()))


def _spark_function(name: str, type_: str) -> Callable[..., object]:
    def call(*columns: pa.Array) -> pa.Array:
        return call_text_function(name, *(_valid(column) for column in columns))

    with warnings.catch_warnings():
        # Spark would rather read the kind of function from type hints; a function of any number of columns has none.
        warnings.simplefilter("ignore")
        return arrow_udf(call, type_, ArrowUDFType.SCALAR)  # type: ignore[no-any-return]


def _valid(column: pa.Array) -> pa.Array:
    """The column with NULL instead of what is no UTF-8, which a BINARY may become by a CAST to TEXT in Spark."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        texts = (None if value is None else _decoded(value) for value in column.view(pa.binary()).to_pylist())
        return pa.array(texts, pa.string())
    return column


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
