"""Text to value and value to text, one at a time, in the spellings of Spark (which are Java's for doubles)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

_INTEGER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d*)", re.ASCII)
_DOUBLE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WORDS = {
    "inf": "inf",
    "+inf": "inf",
    "infinity": "inf",
    "+infinity": "inf",
    "-inf": "-inf",
    "-infinity": "-inf",
    "nan": "nan",
}
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))
_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{1,2}(?::?\d{2})?)?)?)?)?",
    re.ASCII,
)
_DIGITS_MAX = 19  # of a BIGINT
_BLANK = "".join(map(chr, range(33)))


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
    word = _WORDS.get(text.lower())
    return None if word is None else float(word)


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
