"""Arithmetic and functions of one or two numbers.

Integers wrap, integer division truncates toward zero, x / 0 and x % 0 are NULL. Outside its domain a function gives NaN, but
LN and LOG give NULL (as Spark does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.expression import Call
from penstock.functions.casts import cast_value, fit_decimal, wrap
from penstock.functions.values import (
    Implementation,
    OperationInfo,
    Value,
    constant,
    fixed_width,
    is_decimal,
    is_float,
    nulls,
    numbers,
    row_by_row,
    with_nulls,
)
from penstock.types import DOUBLE, Type

# Wide enough for every sum, product and quotient of two DECIMAL(38, s) before it is fitted to its type.
_WIDE = Context(prec=120, rounding=ROUND_HALF_UP)
_ARROW = {"add": pc.add, "sub": pc.subtract, "mul": pc.multiply, "neg": pc.negate, "abs": pc.abs}
_EXACT = Context(prec=800, rounding=ROUND_HALF_UP)
_WHOLE = Type("DECIMAL", 38, 0)  # room for every DECIMAL without its fraction


def _arithmetic(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    if any(is_decimal(a) for a in arguments):
        return _decimals(call, arguments, rows)
    if call.operation in _ARROW:
        return cast_value(_ARROW[call.operation](*arguments), call.type)
    left, right = np.broadcast_arrays(numbers(arguments[0]), numbers(arguments[1]))
    missing = _and_zero(right, nulls(arguments, rows))
    divides, is_real = call.operation == "div", is_float(arguments[0]) or is_float(arguments[1])
    with np.errstate(all="ignore"):
        if is_real:
            out = left / np.where(right == 0, 1.0, right) if divides else np.fmod(left, right)
        else:
            whole = _truncated(left, right)
            out = whole if divides else left - whole * right
    return cast_value(with_nulls(out, pa.from_numpy_dtype(out.dtype), missing), call.type)


def _and_zero(right: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    zero: npt.NDArray[np.bool_] = right == 0
    if missing is not None:
        return zero | missing
    return zero if zero.any() else None


def _truncated(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """left / right toward zero; NumPy's // rounds down. The least integer divided by -1 wraps to itself."""
    divisor = np.where((right == 0) | (right == -1), 1, right)
    floor = left // divisor
    inexact = floor * divisor != left
    out = floor + (inexact & ((left < 0) != (divisor < 0)))
    return np.where(right == -1, -left, out)


_DECIMAL: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "add": _WIDE.add,
    "sub": _WIDE.subtract,
    "mul": _WIDE.multiply,
    "div": _WIDE.divide,
    "mod": _WIDE.remainder,
}


def _decimals(call: Call, arguments: Sequence[Value], rows: int) -> Value:
    run = _DECIMAL[call.operation]

    def one(left: Any, right: Any) -> Any:
        try:
            out = run(Decimal(left), Decimal(right))
        except (InvalidOperation, ZeroDivisionError):
            return None
        if call.type.kind == "DECIMAL":
            return fit_decimal(out, call.type)
        return float(out) if call.type.kind == "DOUBLE" else int(out)

    return row_by_row(one, arguments, call.type, rows)


def _one_number(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return cast_value(_ARROW[call.operation](arguments[0]), call.type)


def _of_double(function: Callable[[Any], Any], positive: bool = False) -> Implementation:
    """A function of a double; `positive`: NULL for 0 and less."""

    def run(arguments: Sequence[Value], call: Call, rows: int) -> Value:
        value = cast_value(arguments[0], DOUBLE)
        doubles, missing = fixed_width(value), nulls((value,), rows)
        if positive:
            outside = doubles <= 0
            missing = outside if missing is None else outside | missing
        with np.errstate(all="ignore"):
            out = function(doubles)
        return cast_value(with_nulls(out, pa.float64(), missing), call.type)

    return run


def _power(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    base, exponent = (cast_value(a, DOUBLE) for a in arguments)
    missing = nulls((base, exponent), rows)
    b, e = np.broadcast_arrays(numbers(base), numbers(exponent))
    with np.errstate(all="ignore"):
        out = np.power(b, e)
    # NumPy takes the square root for an exponent of 0.5, which -infinity has none of.
    out = np.where((b == -np.inf) & (e == 0.5), np.inf, out)
    # C says 1 to any power is 1; Java, and so Spark, says NaN where the exponent is NaN or infinite.
    out = np.where(np.isnan(e) | (np.isinf(e) & (np.abs(b) == 1.0)), np.nan, out)
    return cast_value(with_nulls(out, pa.float64(), missing), call.type)


def _whole(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    value = arguments[0]
    up = call.operation == "ceil"
    if is_decimal(value):
        rounding = "ROUND_CEILING" if up else "ROUND_FLOOR"
        whole = row_by_row(lambda d: d.to_integral_value(rounding), (value,), _WHOLE, rows)
        return cast_value(whole, call.type)
    if not is_float(value):
        return cast_value(value, call.type)
    out = np.ceil(fixed_width(value)) if up else np.floor(fixed_width(value))
    return cast_value(with_nulls(out, pa.float64(), nulls((value,), rows)), call.type)


def _sign(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    if is_decimal(arguments[0]):
        return row_by_row(lambda d: fit_decimal(Decimal((d > 0) - (d < 0)), call.type), arguments, call.type, rows)
    return cast_value(pc.sign(arguments[0]), call.type)


def _round(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    """Half away from zero, at a constant number of digits (0 without one)."""
    value, digits = arguments[0], int(constant(call, 1) or 0)
    if is_float(value):
        out = round_doubles(fixed_width(value), digits)
        return cast_value(with_nulls(out, value.type, nulls((value,), rows)), call.type)
    if not is_decimal(value):
        return cast_value(value if digits >= 0 else _round_integers(value, -digits), call.type)
    if call.type.kind != "DECIMAL":
        return cast_value(row_by_row(lambda d: _half_up(d, digits), (value,), call.arguments[0].type, rows), call.type)
    return row_by_row(lambda d: fit_decimal(_half_up(d, digits), call.type), (value,), call.type, rows)


def _half_up(value: Decimal, digits: int) -> Decimal:
    try:
        return value.quantize(Decimal(1).scaleb(-digits), context=_EXACT)
    except InvalidOperation:
        return value


def _round_integers(value: pa.Array, digits: int) -> pa.Array:
    unit: int = 10 ** min(digits, 20)  # above every BIGINT; more digits would only take time
    bits: int = value.type.bit_width

    def one(number: int) -> int:
        out = (abs(number) + unit // 2) // unit * unit
        out = -out if number < 0 else out
        return wrap(out, bits)

    return pa.array([None if v is None else one(v) for v in value.to_pylist()], value.type)


def round_doubles(values: npt.NDArray[np.float64], digits: int) -> npt.NDArray[np.float64]:
    """Round the shortest decimal spelling of each double half up (2.675 to two digits is 2.68).

    Most values are far enough from a tie that plain arithmetic is exact: whole / 10**digits is correctly
    rounded while both are exact. The few others go through Decimal.
    """
    if digits == 0:
        whole = np.trunc(values)
        with np.errstate(invalid="ignore"):
            return whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0.0)
    out = values.copy()
    careful = np.isfinite(values)
    if 0 < digits <= 15:
        unit = 10.0**digits
        with np.errstate(all="ignore"):
            scaled = values * unit
            floor = np.floor(scaled)
            part = scaled - floor
            plain = (np.abs(scaled) < 2.0**40) & (np.abs(part - 0.5) > 1e-3) & careful
            rounded = np.where(part > 0.5, floor + 1, floor) / unit
        out = np.where(plain, np.copysign(rounded, values), values)
        careful &= ~plain
    for i in np.nonzero(careful)[0]:
        out[i] = float(_half_up(Decimal(repr(float(values[i]))), digits))
    return out


def _trunc(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    """Toward zero, at a constant number of digits (0 without one)."""
    value, digits = arguments[0], int(constant(call, 1) or 0)
    if len(call.arguments) > 1 and constant(call, 1) is None:
        return pa.nulls(rows, call.type.to_arrow())
    if is_float(value):
        out = truncate_doubles(fixed_width(value), digits)
        return cast_value(with_nulls(out, value.type, nulls((value,), rows)), call.type)
    if is_decimal(value):
        return row_by_row(lambda d: fit_decimal(_cut(d, digits), call.type), (value,), call.type, rows)
    if digits >= 0:
        return cast_value(value, call.type)
    return row_by_row(lambda n: int(_cut(Decimal(n), digits)), (value,), call.type, rows)


def truncate_doubles(values: npt.NDArray[np.float64], digits: int) -> npt.NDArray[np.float64]:
    """Cut off the shortest decimal spelling of each double (2.675 to two digits is 2.67)."""
    if digits == 0:
        return np.trunc(values)
    finite = np.isfinite(values)
    out = [float(_cut(Decimal(repr(v)), digits)) if f else v for v, f in zip(values.tolist(), finite, strict=True)]
    return np.array(out, np.float64)


def _cut(value: Decimal, digits: int) -> Decimal:
    try:
        return value.quantize(Decimal(1).scaleb(-max(-400, min(digits, 400))), ROUND_DOWN, _EXACT)
    except InvalidOperation:
        return value


ARITHMETIC = {
    "add": OperationInfo("a + b", _arithmetic),
    "sub": OperationInfo("a - b", _arithmetic),
    "mul": OperationInfo("a * b", _arithmetic),
    "div": OperationInfo("a / b; integers truncate toward zero; NULL where b is 0", _arithmetic),
    "mod": OperationInfo("a % b with the sign of a; NULL where b is 0", _arithmetic),
    "neg": OperationInfo("-a", _one_number),
    "abs": OperationInfo("absolute value; the least integer stays itself", _one_number),
    "round": OperationInfo("round half away from zero, optionally to a constant number of digits", _round),
    "trunc": OperationInfo(
        "cut off toward zero, optionally behind a constant number of digits", _trunc, is_costly=True
    ),
    "floor": OperationInfo("the greatest whole number that is not greater", _whole),
    "ceil": OperationInfo("the least whole number that is not less", _whole),
    "sqrt": OperationInfo("square root; NaN for negative numbers", _of_double(np.sqrt)),
    "power": OperationInfo("a to the power b", _power),
    "exp": OperationInfo("e to the power a", _of_double(np.exp)),
    "ln": OperationInfo("natural logarithm; NULL for 0 and less", _of_double(np.log, positive=True)),
    "log10": OperationInfo("logarithm to base 10; NULL for 0 and less", _of_double(np.log10, positive=True)),
    "sign": OperationInfo("-1, 0 or 1", _sign),
}
