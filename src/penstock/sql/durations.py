"""Durations inside SQL: which words are units, and reading all spellings from tokens."""

from __future__ import annotations

from penstock.errors import PenstockError, error
from penstock.types import parse_duration

# Words that make a number before them a duration, also in the middle of an expression, where the one-letter
# units would steal the names people give to columns.
LONG_UNITS = frozenset(
    word
    for unit in ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
    for word in (unit, unit + "S")
) | {"MS", "SEC", "SECS", "MIN", "MINS"}
UNITS = LONG_UNITS | {"US", "S", "M", "H", "D", "W", "MSEC", "USEC"}

_ALIASES = {"msec": "ms", "usec": "us"}
_LONGEST_US = 1 << 61  # seventy thousand years: with any time added it still fits into 64 bits


def duration_us(text: str) -> int:
    """Microseconds of a duration's text; also a plain clock `01:30:00`, as PostgreSQL writes intervals."""
    cleaned = text.strip()
    negative = cleaned.startswith("-")
    cleaned = cleaned.lstrip("+-").strip()
    try:
        us = _clock_us(cleaned)
        if us is None:
            for word, unit in _ALIASES.items():
                cleaned = cleaned.replace(word, unit)
            us = parse_duration(cleaned)
    except PenstockError as failure:
        raise error("invalid_duration", text=text, hint=failure.hint) from None
    if us > _LONGEST_US:
        raise error("invalid_duration", text=text, hint="it is longer than any time that can be told")
    return -us if negative else us


def _clock_us(text: str) -> int | None:
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(p.replace(".", "", 1).isdigit() for p in parts):
        return None
    hours, minutes, seconds = int(parts[0]), int(parts[1]), float(parts[2]) if len(parts) == 3 else 0.0
    return (hours * 3600 + minutes * 60) * 1_000_000 + round(seconds * 1_000_000)
