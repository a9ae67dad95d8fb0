"""Timestamps moved and compared in microseconds, cut to a unit and taken apart; and fields of structs.

Dates and times of day are UTC and of the Gregorian calendar, also before 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from penstock.expr.expression import Call
from penstock.functions.values import OperationInfo, Value, constant, nulls, numbers, with_nulls

Int64s = npt.NDArray[np.int64]

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_WIDTHS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": _SECOND,
    "MINUTE": 60 * _SECOND,
    "HOUR": 3600 * _SECOND,
    "DAY": _DAY,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
UNITS = frozenset({*_WIDTHS, *_MONTHS, "WEEK"})
"""What a timestamp can be cut to."""


def _move_us(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    move = np.add if call.operation == "add_us" else np.subtract
    with np.errstate(over="ignore"):
        out = move(numbers(arguments[0]), numbers(arguments[1]), dtype=np.int64)
    return with_nulls(out, call.type.to_arrow(), nulls(arguments, rows))


def _calendar(us: Int64s, unit: str) -> Int64s:
    """How many whole days (D), months (M) or years (Y) after 1970 began."""
    return us.astype("datetime64[us]").astype(f"datetime64[{unit}]").astype(np.int64)


def _first_day(count: Int64s, unit: str) -> Int64s:
    """The day on which a month or year begins."""
    return count.astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(np.int64)


def _since_monday(day: Int64s) -> Int64s:
    return (day + 3) % 7  # 1970 began on a Thursday


def _date_trunc(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    unit, us = constant(call, 0), numbers(arguments[1])
    if unit in _WIDTHS:
        out = us - us % _WIDTHS[unit]
    elif unit == "WEEK":
        day = us // _DAY
        out = (day - _since_monday(day)) * _DAY
    else:
        month = _calendar(us, "M")
        out = _first_day(month - month % _MONTHS[unit], "M") * _DAY
    return with_nulls(out, call.type.to_arrow(), nulls(arguments, rows))


def _week(us: Int64s) -> Int64s:
    """By ISO 8601: the week belongs to the year that has its Thursday."""
    day = us // _DAY
    thursday = day - _since_monday(day) + 3
    return (thursday - _first_day(_calendar(thursday * _DAY, "Y"), "Y")) // 7 + 1


PARTS: dict[str, Callable[[Int64s], npt.NDArray[Any]]] = {
    "EPOCH": lambda us: us.astype(np.float64) / _SECOND,
    "YEAR": lambda us: _calendar(us, "Y") + 1970,
    "QUARTER": lambda us: _calendar(us, "M") % 12 // 3 + 1,
    "MONTH": lambda us: _calendar(us, "M") % 12 + 1,
    "WEEK": _week,
    "DAY": lambda us: us // _DAY - _first_day(_calendar(us, "M"), "M") + 1,
    "DOW": lambda us: (us // _DAY + 4) % 7,
    "DOY": lambda us: us // _DAY - _first_day(_calendar(us, "Y"), "Y") + 1,
    "HOUR": lambda us: us % _DAY // _WIDTHS["HOUR"],
    "MINUTE": lambda us: us % _WIDTHS["HOUR"] // _WIDTHS["MINUTE"],
    "SECOND": lambda us: us % _WIDTHS["MINUTE"] / _SECOND,
}
"""By what EXTRACT calls them. Days of the week count from Sunday, 0; seconds have a fraction."""


def _extract(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    out = PARTS[constant(call, 0)](numbers(arguments[1]))
    arrow = call.type.to_arrow()
    return with_nulls(out.astype(arrow.to_pandas_dtype()), arrow, nulls(arguments, rows))


TIMES = {
    "add_us": OperationInfo("a timestamp moved by microseconds", _move_us),
    "diff_us": OperationInfo("microseconds from timestamp b to timestamp a", _move_us),
    "get_field": OperationInfo(
        "one field of a struct", lambda arguments, call, rows: pc.struct_field(arguments[0], constant(call, 1))
    ),
    "date_trunc": OperationInfo("the beginning of the unit in which a timestamp lies", _date_trunc),
    "extract": OperationInfo("EXTRACT(part FROM timestamp)", _extract),
}
