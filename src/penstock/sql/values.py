"""Types, constants and durations while binding: what a literal may become, and the type two values meet in.

Two types exist only here: NULL's own, and DURATION, which is BIGINT microseconds once bound.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from penstock.clock import format_timestamp, parse_timestamp
from penstock.errors import PenstockError, error
from penstock.sql.nodes import Const, Duration
from penstock.types import BIGINT, DOUBLE, INT, TEXT, TIMESTAMP, Type, parse_duration, parse_type

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


NULL = Type("NULL")
DURATION = Type("DURATION")

_LADDER = ("INT", "BIGINT", "DECIMAL", "DOUBLE")
_SPELLINGS = (
    (re.compile(r"\bcharacter\s+varying\b", re.IGNORECASE), "VARCHAR"),
    (re.compile(r"\bcharacter\b", re.IGNORECASE), "CHAR"),
    (re.compile(r"\btimestamp(tz)?(\s*\(\d+\))?(\s+with(out)?\s+time\s+zone)?", re.IGNORECASE), "TIMESTAMP"),
)
_TRUE = {"t", "true", "y", "yes", "on", "1"}
_FALSE = {"f", "false", "n", "no", "off", "0"}


def typed(node: exp.Expr, type_: Type) -> exp.Expr:
    node.meta["penstock"] = type_
    return node


def type_of(node: exp.Expr) -> Type:
    found = node.meta.get("penstock")
    assert isinstance(found, Type), f"not bound: {node!r}"
    return found


def constant(value: Any, type_: Type, like: exp.Expr | None = None, *, loose: bool = False) -> Const:
    """A constant where `like` stood. A loose one (a quoted text, a number) takes the type its surroundings want."""
    # sqlglot compares nodes by their arguments alone, so the value has to be one of them.
    node = Const(this=f"{type_} {value!r}")
    node.meta["value"] = value
    node.meta["loose"] = loose
    if like is not None and like._meta:
        for key in ("line", "col", "start", "end"):
            if key in like.meta:
                node.meta[key] = like.meta[key]
    typed(node, type_)
    return node


def number(text: str) -> tuple[Any, Type]:
    """Value and type of a number as written."""
    if re.fullmatch(r"[0-9_]{1,40}", text):
        value = int(text)
        if value < 2**31:
            return value, INT
        return (value, BIGINT) if value < 2**63 else (float(value), DOUBLE)
    try:
        double = float(text)
    except ValueError:
        raise error("syntax_error", detail=f'"{_shortened(text)}" is not a number') from None
    if math.isinf(double):
        raise error("syntax_error", detail=f"{_shortened(text)} is too large for any type")
    return double, DOUBLE


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}..."


def show(type_: Type) -> str:
    return "an INTERVAL" if type_ == DURATION else str(type_)


def external(type_: Type) -> Type:
    """The type as an answer carries it."""
    if type_ == DURATION:
        return BIGINT
    return TEXT if type_ == NULL else type_


def meet(left: Type, right: Type) -> Type | None:
    """The type in which two values can be compared or combined; None where there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if left.kind in _LADDER and right.kind in _LADDER:
        if left.kind == right.kind == "DECIMAL":
            scale = max(left.scale, right.scale)
            whole = max(left.precision - left.scale, right.precision - right.scale)
            return Type("DECIMAL", precision=min(38, whole + scale), scale=scale)
        wider = max(left, right, key=lambda t: _LADDER.index(t.kind))
        if wider.kind == "DECIMAL":
            digits = 10 if "INT" in (left.kind, right.kind) else 19
            whole = max(wider.precision - wider.scale, digits)
            return Type("DECIMAL", precision=min(38, whole + wider.scale), scale=wider.scale)
        return wider
    if left.kind == right.kind == "ARRAY" and left.element and right.element:
        element = meet(left.element, right.element)
        return Type("ARRAY", element=element) if element else None
    return None


def convert(value: Any, source: Type, target: Type, *, assign: bool = False) -> Any:
    """A constant's value in another type. PenstockError type_mismatch where it does not fit.

    `assign` allows what PostgreSQL allows when storing: a DOUBLE into INT is rounded.
    """
    if value is None:
        return None
    if source == target:
        return value
    try:
        return _convert(value, source, target, assign)
    except (ValueError, InvalidOperation, OverflowError):
        raise error("type_mismatch", detail=f'"{value}" is not {_article(target)}', hint=_hint(target)) from None


def _convert(value: Any, source: Type, target: Type, assign: bool) -> Any:
    match target.kind:
        case "INT" | "BIGINT" if isinstance(value, str | int) and not isinstance(value, bool):
            return _integer(int(value.strip()) if isinstance(value, str) else value, target)
        case "INT" | "BIGINT" if isinstance(value, float) and assign:
            return _integer(int(Decimal(value).to_integral_value()), target)
        case "DOUBLE" if not isinstance(value, bool):
            return float(value)
        case "DECIMAL" if not isinstance(value, bool):
            exact = Decimal(repr(value) if isinstance(value, float) else str(value).strip())
            rounded = exact.quantize(Decimal(1).scaleb(-target.scale))
            if abs(rounded) >= Decimal(10) ** (target.precision - target.scale):
                raise ValueError(value)
            return str(rounded)
        case "BOOLEAN" if isinstance(value, str):
            word = value.strip().lower()
            if word in _TRUE | _FALSE:
                return word in _TRUE
        case "TEXT" if isinstance(value, str):
            return value
        case "TEXT" if assign and isinstance(value, bool):
            return "true" if value else "false"
        case "TEXT" if assign and source == TIMESTAMP:
            return format_timestamp(value)
        case "TEXT" if assign:
            return str(value)
        case "TIMESTAMP" if isinstance(value, str):
            return parse_timestamp(value)
        case "DURATION" if isinstance(value, str):
            return duration_us(value)
        case "BINARY" if isinstance(value, str):
            return bytes.fromhex(value[2:]).hex() if value.startswith("\\x") else value.encode().hex()
        case _:
            pass
    raise ValueError(value)


def _integer(value: int, target: Type) -> int:
    bits = 31 if target == INT else 63
    if not -(2**bits) <= value < 2**bits:
        raise ValueError(value)
    return value


def _article(target: Type) -> str:
    if target == DURATION:
        return "a duration"
    return f"an {target}" if str(target)[0] in "AEIOU" else f"a {target}"


def _hint(target: Type) -> str | None:
    if target == TIMESTAMP:
        return "write a time as '2026-01-31 12:00:00'"
    return "write a duration as 10 SECONDS or '1h30m'" if target == DURATION else None


def normalised(text: str) -> str:
    """A type's text in the words of `penstock.types`."""
    for pattern, word in _SPELLINGS:
        text = pattern.sub(word, text)
    return text


def type_of_cast(to: exp.DataType) -> Type | None:
    """Our type for the target of a CAST; None for DATE, which is read as the midnight of a TIMESTAMP."""
    if to.is_type("date"):
        return None
    if to.is_type("interval"):
        return DURATION
    if to.find(Duration, exp.Func) is not None:
        raise error("type_mismatch", detail="this is not a type")
    text = to.sql(dialect="postgres")
    brackets = 0
    while text.endswith("[]"):
        text, brackets = text[:-2], brackets + 1
    try:
        found = parse_type(normalised(text))
    except PenstockError:
        found = parse_type(to.sql(dialect="spark"))
        brackets = 0
    for _ in range(brackets):
        found = Type("ARRAY", element=found)
    return found
