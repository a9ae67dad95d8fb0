"""CAST: what cannot be converted is NULL, never an error; a number too large for its new type wraps or saturates.

As Spark with ANSI off: BIGINT to INT wraps, DOUBLE to an integer truncates and saturates (NaN gives 0), text that
is no number gives NULL, a timestamp counts seconds. Values are spelled as Spark does (which is Java's way for doubles).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.functions.values import OperationInfo, Value, fixed_width, nulls, per_distinct, with_nulls
from penstock.types import Type

_INTEGER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d*)", re.ASCII)
_DOUBLE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = frozenset("inf +inf infinity +infinity -inf -infinity nan".split())
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))
_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{1,2}(?::?\d{2})?)?)?)?)?",
    re.ASCII,
)
_DIGITS_MAX = 19  # of a BIGINT
_BLANK = "".join(map(chr, range(33)))
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)


def cast_value(value: Value, to: Type) -> Value:
    """The value with the Arrow type of `to`."""
    target = to.to_arrow()
    if value.type == target:
        return value
    if isinstance(value, pa.Scalar):
        return _cast(pa.array([value.as_py()], value.type), to, target)[0]
    return _cast(value, to, target)


def _cast(value: pa.Array, to: Type, target: pa.DataType) -> pa.Array:
    source = value.type
    if pa.types.is_null(source):
        return pa.nulls(len(value), target)
    if pa.types.is_string(source):
        return _from_text(value, to, target)
    if to.kind == "TEXT":
        return per_distinct(text_of(source), _plain(value), target)
    if pa.types.is_nested(source):
        return value.cast(target, safe=False)
    if pa.types.is_timestamp(source):
        return _from_timestamp(value, to, target)
    if to.kind == "TIMESTAMP":
        return _to_timestamp(value, target)
    if to.kind == "BOOLEAN":
        return pc.not_equal(value, pa.scalar(0, source))
    if to.kind == "DECIMAL" or pa.types.is_decimal(source):
        return _decimal(value, to, target)
    if pa.types.is_floating(source) and to.kind in ("INT", "BIGINT"):
        return with_nulls(saturate(fixed_width(value), to), target, nulls((value,), len(value)))
    return value.cast(target, safe=False)


def saturate(values: Any, to: Type) -> Any:
    """Doubles as integers: toward zero, NaN is 0, what does not fit is the nearest that does."""
    least, most = (-(2**31), 2**31 - 1) if to.kind == "INT" else (-(2**63), 2**63 - 1)
    dtype = np.int32 if to.kind == "INT" else np.int64
    high, low = values >= float(most), values <= float(least)
    inside = np.where(high | low | np.isnan(values), 0.0, values).astype(dtype)
    return np.where(high, dtype(most), np.where(low, dtype(least), inside))


def fit_decimal(value: Decimal, to: Type) -> Decimal | None:
    """Rounded half up to the scale; None where it has too many digits."""
    try:
        out = value.quantize(Decimal(1).scaleb(-to.scale), context=_EXACT)
    except InvalidOperation:
        return None
    return out if abs(out) < Decimal(10) ** (to.precision - to.scale) else None


def _plain(value: pa.Array) -> pa.Array:
    """Timestamps as integers: Python's datetime ends in the year 9999."""
    return value.cast(pa.int64()) if pa.types.is_timestamp(value.type) else value


def _from_text(value: pa.Array, to: Type, target: pa.DataType) -> pa.Array:
    if to.kind == "DECIMAL":
        return per_distinct(lambda t: _decimal_of_text(t, to), value, target)
    if to.kind == "TIMESTAMP":
        return per_distinct(parse_timestamp, value, pa.int64()).cast(target)
    parse = PARSERS.get(to.kind)
    return pa.nulls(len(value), target) if parse is None else per_distinct(parse, value, target)


def _decimal_of_text(text: str, to: Type) -> Decimal | None:
    number = parse_decimal(text)
    return None if number is None else fit_decimal(number, to)


def _from_timestamp(value: pa.Array, to: Type, target: pa.DataType) -> pa.Array:
    us, missing = fixed_width(value), nulls((value,), len(value))
    if to.kind == "DOUBLE":
        return with_nulls(us / 1e6, target, missing)
    if to.kind == "BOOLEAN":
        return with_nulls(us != 0, target, missing)
    if to.kind == "DECIMAL":
        return per_distinct(lambda v: fit_decimal(Decimal(v).scaleb(-6), to), value.cast(pa.int64()), target)
    if to.kind in ("INT", "BIGINT"):
        seconds = np.floor_divide(us, 1_000_000)
        if to.kind == "INT":
            # The one overflow that Spark answers with NULL instead of wrapping.
            outside = (seconds > 2**31 - 1) | (seconds < -(2**31))
            missing = outside if missing is None else outside | missing
        return with_nulls(seconds, pa.int64(), missing).cast(target, safe=False)
    return pa.nulls(len(value), target)


def _to_timestamp(value: pa.Array, target: pa.DataType) -> pa.Array:
    missing = nulls((value,), len(value))
    if pa.types.is_decimal(value.type):
        us = per_distinct(lambda d: wrap(int(d.scaleb(6, _EXACT)), 64), value, pa.int64())
        return us.cast(target)
    if pa.types.is_floating(value.type):
        seconds = fixed_width(value)
        unknown = ~np.isfinite(seconds)
        us = saturate(np.where(unknown, 0.0, seconds) * 1e6, Type("BIGINT"))
        return with_nulls(us, target, unknown if missing is None else unknown | missing)
    if pa.types.is_boolean(value.type):
        return with_nulls(value.cast(pa.int64()).fill_null(0).to_numpy(), target, missing)
    if pa.types.is_integer(value.type):
        whole = fixed_width(value).astype(np.int64)
        limit = 2**63 // 1_000_000
        us = np.where(whole > limit, 2**63 - 1, np.where(whole < -limit, -(2**63), whole * 1_000_000))
        return with_nulls(us, target, missing)
    return pa.nulls(len(value), target)


def _decimal(value: pa.Array, to: Type, target: pa.DataType) -> pa.Array:
    if to.kind == "DECIMAL":
        if pa.types.is_floating(value.type):
            return per_distinct(lambda v: _decimal_of_double(v, to), value, target)
        return per_distinct(lambda v: fit_decimal(Decimal(int(v) if isinstance(v, bool) else v), to), value, target)
    if to.kind == "DOUBLE":
        return per_distinct(float, value, target)
    bits = 32 if to.kind == "INT" else 64
    return per_distinct(lambda d: wrap(int(d), bits), value, target)


def _decimal_of_double(value: float, to: Type) -> Decimal | None:
    # The shortest decimal that reads back as the double, as Spark does, not its exact binary value.
    return fit_decimal(Decimal(repr(value)), to) if np.isfinite(value) else None


def wrap(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


CASTS = {
    "cast": OperationInfo(
        "CAST(a AS type); NULL where a cannot be converted",
        lambda arguments, call, rows: cast_value(arguments[0], call.type),
    )
}


def parse_integer(text: str, bits: int) -> int | None:
    """An integer with sign; digits after a point are cut off. None where it is none or does not fit."""
    text = text.strip(_BLANK)
    if not _INTEGER.fullmatch(text):
        return None
    whole = text.partition(".")[0]
    digits = whole.lstrip("+-").lstrip("0")
    if len(digits) > _DIGITS_MAX:  # Python refuses to read thousands of them
        return None
    value = int(digits or "0") * (-1 if whole.startswith("-") else 1)
    return value if -(1 << (bits - 1)) <= value < (1 << (bits - 1)) else None


def parse_double(text: str) -> float | None:
    text = text.strip(_BLANK)
    if match := _DOUBLE.fullmatch(text):
        return float(match.group(1))
    return float(text) if text.lower() in _WORDS else None


def parse_decimal(text: str) -> Decimal | None:
    text = text.strip(_BLANK)
    try:
        return Decimal(text) if _DECIMAL.fullmatch(text) else None
    except InvalidOperation:  # an exponent of twenty digits
        return None


def parse_boolean(text: str) -> bool | None:
    text = text.strip(_BLANK).lower()
    return True if text in _TRUE else False if text in _FALSE else None


def parse_timestamp(text: str) -> int | None:
    """Microseconds of a date, or of a date and time with an optional offset; UTC without one.

    A time without a date is None: Spark would take today's, and an answer must not depend on the day it is asked.
    """
    match = _TIMESTAMP.fullmatch(text.strip(_BLANK))
    if not match:
        return None
    year, month, day, hour, minute, second = [
        int(g or d) for g, d in zip(match.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True)
    ]
    try:
        moment = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
    since = moment - datetime(1970, 1, 1)
    us = (since.days * 86_400 + since.seconds) * 1_000_000
    us += int((match.group(7) or "").ljust(6, "0")[:6])
    return us - _offset_us(match.group(8))


def _offset_us(zone: str | None) -> int:
    if zone in (None, "Z", "UTC"):
        return 0
    assert zone is not None
    digits = zone[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "0")
    us = (int(hours) * 60 + int(minutes)) * 60_000_000
    return -us if zone[0] == "-" else us


PARSERS: dict[str, Callable[[str], Any]] = {
    "INT": lambda text: parse_integer(text, 32),
    "BIGINT": lambda text: parse_integer(text, 64),
    "DOUBLE": parse_double,
    "BOOLEAN": parse_boolean,
    "BINARY": lambda text: text.encode(),
}


def double_text(value: float) -> str:
    """As Java writes doubles: 1.0, 1.0E10, NaN, -Infinity."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        # repr switches to an exponent only below 1e-4 and from 1e16 on.
        return repr(value)
    two_digits = f"{value:.1e}"
    shortest = two_digits if float(two_digits) == value else f"{Decimal(repr(value)):e}"
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa}E{int(exponent)}"


def timestamp_text(us: int) -> str:
    """2026-11-15 08:30:00.25 in UTC: the fraction without trailing zeros."""
    whole, fraction = divmod(us, 1_000_000)
    text = str(np.datetime64(whole, "s")).replace("T", " ")
    if len(text) > len("2026-11-15 08:30:00") and text[0] != "-":
        text = f"+{text}"
    return text + (f".{fraction:06d}".rstrip("0") if fraction else "")


def text_of(source: pa.DataType) -> Callable[[Any], str]:
    """The function that spells values of an Arrow type."""
    if pa.types.is_boolean(source):
        return lambda v: "true" if v else "false"
    if pa.types.is_floating(source):
        return double_text
    if pa.types.is_timestamp(source):
        return timestamp_text
    if pa.types.is_binary(source):
        return lambda v: v.decode(errors="replace")
    if pa.types.is_decimal(source):
        return lambda v: f"{v:f}"
    return str
