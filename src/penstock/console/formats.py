"""Numbers, times and sizes as people read them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from penstock.clock import SECOND, format_timestamp

NOTHING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """With about three digits that matter, and no more than the eye takes in."""
    if value is None:
        return NOTHING
    if abs(value) >= 10_000_000:
        return f"{value / 1_000_000:,.0f} M"
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}"


def size(count: float | None) -> str:
    if count is None:
        return NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"


def cycles(count: int) -> str:
    return "0" if not count else f"{count:,} cycle{'' if count == 1 else 's'}"


def age(us: int | None, now_us: int) -> str:
    """How long ago; of a time ahead of ours we say that it is now."""
    if us is None:
        return "never"
    seconds = max(0.0, (now_us - us) / SECOND)
    return "now" if seconds < 1 else f"{duration(seconds)} ago"


def clock_time(us: int) -> str:
    """Only the time of day, in UTC."""
    return format_timestamp(us)[11:19]


def cell(value: Any) -> str | int | float | bool | None:
    """A value as a table shows it; lists and records as text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return str(value)
