"""Arithmetic: integers wrap, integer division truncates toward zero, x / 0 and x % 0 are NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.expression import Call
from penstock.functions.casts import cast_value, fit_decimal
from penstock.functions.values import (
    OperationInfo,
    Value,
    is_decimal,
    is_float,
    nulls,
    numbers,
    row_by_row,
    with_nulls,
)

# Wide enough for every sum, product and quotient of two DECIMAL(38, s) before it is fitted to its type.
_WIDE = Context(prec=120, rounding=ROUND_HALF_UP)
_ARROW = {"add": pc.add, "sub": pc.subtract, "mul": pc.multiply}


def _sum_like(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    if any(is_decimal(a) for a in arguments):
        return _decimals(call, arguments, rows)
    return cast_value(_ARROW[call.operation](*arguments), call.type)


def _div(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    if any(is_decimal(a) for a in arguments):
        return _decimals(call, arguments, rows)
    left, right = np.broadcast_arrays(numbers(arguments[0]), numbers(arguments[1]))
    missing = _and_zero(right, nulls(arguments, rows))
    if is_float(arguments[0]) or is_float(arguments[1]):
        with np.errstate(all="ignore"):
            out = left / np.where(right == 0, 1.0, right)
    else:
        out = _truncated(left, right)
    return cast_value(with_nulls(out, pa.from_numpy_dtype(out.dtype), missing), call.type)


def _mod(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    if any(is_decimal(a) for a in arguments):
        return _decimals(call, arguments, rows)
    left, right = np.broadcast_arrays(numbers(arguments[0]), numbers(arguments[1]))
    missing = _and_zero(right, nulls(arguments, rows))
    with np.errstate(all="ignore"):
        if is_float(arguments[0]) or is_float(arguments[1]):
            out = np.fmod(left, right)
        else:
            out = left - _truncated(left, right) * right
    return cast_value(with_nulls(out, pa.from_numpy_dtype(out.dtype), missing), call.type)


def _and_zero(right: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    zero: npt.NDArray[np.bool_] = right == 0
    if missing is not None:
        return zero | missing
    return zero if zero.any() else None


def _truncated(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """left / right toward zero; NumPy's // rounds down. The least integer divided by -1 wraps to itself."""
    with np.errstate(all="ignore"):
        divisor = np.where((right == 0) | (right == -1), 1, right)
        floor = left // divisor
        inexact = floor * divisor != left
        out = floor + (inexact & ((left < 0) != (divisor < 0)))
        return np.where(right == -1, -left, out)


def _neg(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return cast_value(pc.negate(arguments[0]), call.type)


def _decimal_div(left: Decimal, right: Decimal) -> Decimal | None:
    return None if right == 0 else _WIDE.divide(left, right)


def _decimal_mod(left: Decimal, right: Decimal) -> Decimal | None:
    return None if right == 0 else _WIDE.remainder(left, right)


_DECIMAL: dict[str, Callable[[Decimal, Decimal], Decimal | None]] = {
    "add": _WIDE.add,
    "sub": _WIDE.subtract,
    "mul": _WIDE.multiply,
    "div": _decimal_div,
    "mod": _decimal_mod,
}


def _decimals(call: Call, arguments: Sequence[Value], rows: int) -> Value:
    run = _DECIMAL[call.operation]

    def one(left: Any, right: Any) -> Any:
        try:
            out = run(Decimal(left), Decimal(right))
        except InvalidOperation:
            return None
        if out is None or call.type.kind == "DECIMAL":
            return None if out is None else fit_decimal(out, call.type)
        return float(out) if call.type.kind == "DOUBLE" else int(out)

    return row_by_row(one, arguments, call.type, rows)


ARITHMETIC = {
    "add": OperationInfo("a + b", _sum_like),
    "sub": OperationInfo("a - b", _sum_like),
    "mul": OperationInfo("a * b", _sum_like),
    "div": OperationInfo("a / b; integers truncate toward zero; NULL where b is 0", _div),
    "mod": OperationInfo("a % b with the sign of a; NULL where b is 0", _mod),
    "neg": OperationInfo("-a", _neg),
}
