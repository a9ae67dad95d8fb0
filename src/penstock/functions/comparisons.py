"""Comparisons, three-valued logic, and choices among values: CASE, COALESCE, NULLIF, GREATEST, LEAST.

NaN equals NaN and is greater than every number; -0.0 equals 0.0; text compares by code point.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.expression import Call, Literal
from penstock.functions.casts import cast_value
from penstock.functions.values import (
    OperationInfo,
    Value,
    as_array,
    is_float,
    is_nested,
    literal_scalar,
    nulls,
    numbers,
    row_by_row,
    with_nulls,
)
from penstock.types import BOOLEAN

# By operation: for columns, and for what only Python orders.
_HOLDS = {
    "eq": (pc.equal, operator.eq),
    "ne": (pc.not_equal, operator.ne),
    "lt": (pc.less, operator.lt),
    "le": (pc.less_equal, operator.le),
    "gt": (pc.greater, operator.gt),
    "ge": (pc.greater_equal, operator.ge),
}


def compare(operation: str, left: Value, right: Value, rows: int) -> Value:
    """`left operation right`, NULL where either is NULL."""
    if is_float(left) or is_float(right):
        missing = nulls((left, right), rows)
        return with_nulls(compare_floats(operation, numbers(left), numbers(right)), pa.bool_(), missing)
    holds_for_columns, holds = _HOLDS[operation]
    if is_nested(left):
        return row_by_row(lambda a, b: holds(_rank(a), _rank(b)), (left, right), BOOLEAN, rows)
    return holds_for_columns(left, right)


def _rank(value: Any) -> tuple[Any, ...]:
    """A nested value, or a part of one, as something Python can order: part by part, NULL first, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return (1, [_rank(part) for part in parts])
    return (2,) if value != value else (1, value)


def compare_floats(operation: str, left: Any, right: Any) -> Any:
    """IEEE comparisons are false for NaN; each case below is the cheapest one that puts NaN on top."""
    match operation:
        case "eq":
            return (left == right) | (np.isnan(left) & np.isnan(right))
        case "ne":
            return ~((left == right) | (np.isnan(left) & np.isnan(right)))
        case "lt":
            return (left < right) | (np.isnan(right) & ~np.isnan(left))
        case "le":
            return (left <= right) | np.isnan(right)
        case "gt":
            return (left > right) | (np.isnan(left) & ~np.isnan(right))
        case _:
            return (left >= right) | np.isnan(left)


def _compared(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return compare(call.operation, arguments[0], arguments[1], rows)


def _is_in(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    value, options = arguments[0], call.arguments[1:]
    if is_nested(value) or not all(isinstance(o, Literal) for o in options):
        found = compare("eq", value, arguments[1], rows)
        for option in arguments[2:]:
            found = pc.or_kleene(found, compare("eq", value, option, rows))
        return found
    scalars = [literal_scalar(o) for o in options if isinstance(o, Literal)]
    known = [s for s in scalars if s.is_valid]
    if is_float(value):
        # Arrow's hash distinguishes -0.0 from 0.0; adding 0.0 makes them equal.
        value = with_nulls(numbers(value) + 0.0, value.type, nulls((value,), rows))
        known = [pa.scalar(s.as_py() + 0.0, value.type) for s in known]
    found = pc.is_in(value, value_set=pa.array([s.as_py() for s in known], value.type))
    unknown = value.is_null()
    if len(known) < len(scalars):
        unknown = pc.or_(unknown, pc.invert(found))
    elif not value.null_count:
        return found
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _is_same(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    left, right = arguments
    missing = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(compare("eq", left, right, rows), False), missing)


def _case(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    pairs = len(arguments) // 2
    conditions = [as_array(arguments[2 * i], rows) for i in range(pairs)]
    values = [cast_value(arguments[2 * i + 1], call.type) for i in range(pairs)]
    if len(arguments) % 2:
        values.append(cast_value(arguments[-1], call.type))
    return pc.case_when(pa.StructArray.from_arrays(conditions, [str(i) for i in range(pairs)]), *values)


def _coalesce(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return pc.coalesce(*(cast_value(a, call.type) for a in arguments))


def _nullif(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    equal = compare("eq", arguments[0], arguments[1], rows)
    value = cast_value(arguments[0], call.type)
    return pc.if_else(pc.fill_null(equal, False), pa.scalar(None, value.type), value)


def _extreme(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    """NULLs are skipped; NULL only where all are."""
    better = "gt" if call.operation == "greatest" else "lt"

    def pick(best: Value, other: Value) -> Value:
        wins = pc.fill_null(compare(better, other, best, rows), False)
        return pc.if_else(pc.or_(wins, pc.is_null(best)), other, best)

    return reduce(pick, [as_array(cast_value(a, call.type), rows) for a in arguments])


COMPARISONS = {
    "eq": OperationInfo("a = b", _compared),
    "ne": OperationInfo("a <> b", _compared),
    "lt": OperationInfo("a < b", _compared),
    "le": OperationInfo("a <= b", _compared),
    "gt": OperationInfo("a > b", _compared),
    "ge": OperationInfo("a >= b", _compared),
    "in": OperationInfo("a IN (constants): NULL where a is not found and a constant is NULL", _is_in),
    "same": OperationInfo("a IS NOT DISTINCT FROM b: equal, or both NULL; never NULL", _is_same),
    "and": OperationInfo("a AND b AND ...", lambda arguments, call, rows: reduce(pc.and_kleene, arguments)),
    "or": OperationInfo("a OR b OR ...", lambda arguments, call, rows: reduce(pc.or_kleene, arguments)),
    "not": OperationInfo("NOT a", lambda arguments, call, rows: pc.invert(arguments[0])),
    "is_null": OperationInfo("a IS NULL; NaN is a value", lambda arguments, call, rows: pc.is_null(arguments[0])),
    "case": OperationInfo("CASE WHEN c1 THEN v1 ... ELSE e END; NULL without ELSE", _case),
    "coalesce": OperationInfo("the first that is not NULL", _coalesce),
    "nullif": OperationInfo("a, but NULL where a = b", _nullif),
    "greatest": OperationInfo("the greatest that is not NULL", _extreme),
    "least": OperationInfo("the least that is not NULL", _extreme),
}
