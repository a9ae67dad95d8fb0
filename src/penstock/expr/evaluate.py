"""Evaluate bound expressions over whole columns.

Values mean what PostgreSQL's users expect and equal what Spark computes with ANSI mode off: three-valued logic,
NaN above every number, integers that wrap, NULL where there is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import PenstockError, error
from penstock.expr.expression import Call, Column, Expr, Literal, UserCall, columns_of
from penstock.functions import OPERATIONS
from penstock.functions.casts import cast_value
from penstock.functions.values import Value, as_array, literal_scalar

Columns: TypeAlias = Mapping[str, Any]  # or a RecordBatch or Table
Functions: TypeAlias = Mapping[str, Callable[..., Any]]
Arguments: TypeAlias = Callable[[], list[pa.Array]]
Run: TypeAlias = Callable[[list[pa.Array], int], Value]


class FunctionCalls:
    """What users' functions gave for one batch, or the error; calls of equal text are made once."""

    def __init__(self) -> None:
        self._known: dict[Expr, Any] = {}

    def value(self, call: UserCall, rows: int, arguments: Arguments, run: Run) -> Value:
        """What the call gives for all rows; `run` calls the function with its arguments."""
        if call not in self._known:
            try:
                self._known[call] = run(arguments(), rows)
            except PenstockError as failure:
                self._known[call] = failure
        if isinstance(self._known[call], PenstockError):
            raise self._known[call]
        return self._known[call]


def evaluate(
    expr: Expr, columns: Columns, rows: int, functions: Functions | None = None, calls: FunctionCalls | None = None
) -> pa.Array:
    """The expression's value per row, with the Arrow type of `expr.type`.

    `columns` maps flat names to arrays of `rows` values. `functions` holds compiled user functions. A
    caller that evaluates many expressions over the same rows gives the same `calls` each time.
    """
    value = _value(expr, columns, rows, functions or {}, FunctionCalls() if calls is None else calls)
    return as_array(cast_value(value, expr.type), rows)


def evaluate_mask(
    expr: Expr | None, columns: Columns, rows: int, functions: Functions | None = None
) -> npt.NDArray[np.bool_]:
    """Where a predicate is true; NULL counts as false, no predicate as true."""
    if expr is None:
        return np.ones(rows, np.bool_)
    return mask_of(evaluate(expr, columns, rows, functions))


def evaluate_static(expr: Expr | None, versions: pa.Table) -> npt.NDArray[np.bool_]:
    """Which static versions pass a static predicate, by vid; NULL counts as false."""
    return evaluate_mask(expr, versions, versions.num_rows)


def evaluate_static_of(expr: Expr, versions: pa.Table, vids: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """The same for the versions of some rows, row by row: a few rows need not evaluate all versions."""
    if versions.num_rows < len(vids):
        return evaluate_static(expr, versions)[vids]
    needed, back = np.unique(vids, return_inverse=True)
    columns = versions.select(sorted(columns_of(expr))).take(pa.array(needed))
    return evaluate_mask(expr, columns, len(needed))[back]


def mask_of(values: pa.Array) -> npt.NDArray[np.bool_]:
    """A boolean array as NumPy, NULL as false."""
    if values.null_count:
        values = values.fill_null(False)
    mask: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask


def _value(expr: Expr, columns: Columns, rows: int, functions: Functions, calls: FunctionCalls) -> Value:
    match expr:
        case Literal():
            return literal_scalar(expr)
        case Column(name):
            array = columns[name]
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        case Call(operation, arguments):
            values = [_value(a, columns, rows, functions, calls) for a in arguments]
            run = OPERATIONS[operation].run
            if all(isinstance(v, pa.Scalar) for v in values):
                return as_array(run([pa.repeat(v, 1) for v in values], expr, 1), 1)[0]
            return run(values, expr, rows)
        case UserCall(function, arguments):
            if function not in functions:
                raise error("function_not_found", function=function)

            def columns_of_arguments() -> list[pa.Array]:
                return [as_array(_value(a, columns, rows, functions, calls), rows) for a in arguments]

            def call_function(arrays: list[pa.Array], count: int) -> Value:
                return cast_value(functions[function](*arrays, rows=count), expr.type)

            return calls.value(expr, rows, columns_of_arguments, call_function)
