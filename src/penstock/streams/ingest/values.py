"""One value as a sender wrote it, made into a value of a field's type; ValueError with a sentence where it is none.

The slow, exact path: `columns` converts whole columns at once and comes here only for columns with a bad value, so
both must accept the same things and give the same results.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

from penstock.clock import SECOND, parse_timestamp
from penstock.types import Type

# The years 1 to 9999: what ISO 8601 texts, Python and Spark can all show.
TS_MIN = -62_135_596_800_000_000
TS_MAX = 253_402_300_799_999_999

_INTEGERS = {"INT": 2**31, "BIGINT": 2**63}
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def convert_value(type: Type, value: Any) -> Any:
    """A value out of JSON, of a sensor or of an Arrow column; what `pa.array(..., type)` takes comes out."""
    if value is None:
        return None
    match type.kind:
        case "INT" | "BIGINT":
            return _integer(type, value)
        case "DOUBLE":
            return _double(value)
        case "BOOLEAN":
            if isinstance(value, bool):
                return value
            raise _wrong(value, "true or false")
        case "TEXT":
            return _text(value)
        case "TIMESTAMP":
            return convert_time(value)
        case "BINARY":
            return _binary(value)
        case "DECIMAL":
            return _decimal(type, value)
        case "ARRAY":
            return _array(type, value)
        case _:
            return _struct(type, value)


def parse_text(type: Type, text: str) -> Any:
    """A value spelled as text, as in CSV or in a text column of an Arrow table."""
    stripped = text.strip()
    match type.kind:
        case "TEXT":
            return text
        case "INT" | "BIGINT":
            try:
                return _integer(type, int(stripped, 16 if stripped[:2].lower() == "0x" else 10))
            except ValueError as problem:
                raise (problem if "outside" in str(problem) else _wrong(text, "a whole number")) from None
        case "DOUBLE":
            try:
                return float(stripped)
            except ValueError:
                raise _wrong(text, "a number") from None
        case "BOOLEAN":
            if stripped.lower() in _BOOLEANS:
                return _BOOLEANS[stripped.lower()]
            raise _wrong(text, "true or false")
        case "ARRAY" | "STRUCT":
            try:
                return convert_value(type, json.loads(text))
            except json.JSONDecodeError:
                raise _wrong(text, f"{type} as JSON") from None
        case _:
            return convert_value(type, text)


def convert_time(value: Any) -> int:
    """Microseconds of an ISO 8601 text, of whole microseconds or of a datetime (UTC where it names no zone)."""
    if isinstance(value, str):
        try:
            us = parse_timestamp(value)
        except ValueError:
            raise _wrong(value, "a time; write 2026-01-31T12:00:00Z or whole microseconds since 1970") from None
    elif isinstance(value, datetime):
        delta = (value if value.tzinfo else value.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        us = (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds
    elif isinstance(value, int) and not isinstance(value, bool):
        us = value
    elif isinstance(value, float) and value.is_integer():
        us = int(value)
    else:
        raise _wrong(value, "a time; write 2026-01-31T12:00:00Z or whole microseconds since 1970")
    if not TS_MIN <= us <= TS_MAX:
        raise ValueError(f"{us} microseconds lie outside the years 1 to 9999")
    return us


def _integer(type: Type, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _wrong(value, "a whole number")
    if not isinstance(value, int) and not (math.isfinite(value) and value == int(value)):
        raise _wrong(value, "a whole number")
    whole = int(value)
    limit = _INTEGERS[type.kind]
    if not -limit <= whole < limit:
        raise ValueError(f"{whole} lies outside {type}")
    return whole


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _wrong(value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"a number of {len(str(value))} digits lies outside DOUBLE") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("the text is not valid Unicode") from None
    return value


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise _wrong(value, "bytes as base64")


def _decimal(type: Type, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise _wrong(value, "a number")
    try:
        exact = Decimal(str(value).strip())
        if not exact.is_finite():
            raise _wrong(value, "a finite number")
        with localcontext() as context:
            context.prec = 80
            rounded = exact.quantize(Decimal(1).scaleb(-type.scale), rounding=ROUND_HALF_UP)
    except InvalidOperation:
        raise _wrong(value, f"a number within {type}") from None
    if len(rounded.as_tuple().digits) > type.precision:
        raise ValueError(f"{value} lies outside {type}")
    return rounded


def _array(type: Type, value: Any) -> list[Any]:
    assert type.element is not None
    if not isinstance(value, list | tuple):
        raise _wrong(value, str(type))
    return [convert_value(type.element, element) for element in value]


def _struct(type: Type, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(value, str(type))
    names = [field.name for field in type.fields]
    for name in value:
        if name not in names:
            raise ValueError(f'{type} has no "{name}"')
    for name in names:
        if name not in value:
            raise ValueError(f'"{name}" is missing; {type} needs every part, null where there is none')
    return {field.name: convert_value(field.type, value[field.name]) for field in type.fields}


def _wrong(value: Any, wanted: str) -> ValueError:
    shown = json.dumps(value, default=str) if not isinstance(value, float) else repr(value)
    return ValueError(f"{shown if len(shown) <= 60 else shown[:57] + '...'} is not {wanted}")
