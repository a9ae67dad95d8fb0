"""Values as senders wrote them, made into values of the declared types: whole columns, as fast as Arrow does it, or one by one.

A column that Arrow converts without a complaint is done; only one with a bad value is walked value by value, to keep the good ones
and to say what is wrong with the others. Both ways must accept the same things and give the same results. `report(index, sentence)`
is called for each bad value, which becomes NULL.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.clock import SECOND, parse_timestamp
from penstock.streams.ingest.rules import NO_TIME
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


Report = Callable[[int, str], None]

# Python types that `pa.array` converts to a type exactly as `convert_value` does.
_EXACT: dict[str, frozenset[type]] = {
    "INT": frozenset({int, type(None)}),
    "BIGINT": frozenset({int, type(None)}),
    "DOUBLE": frozenset({int, float, type(None)}),
    "BOOLEAN": frozenset({bool, type(None)}),
    "TEXT": frozenset({str, type(None)}),
    "BINARY": frozenset({bytes, type(None)}),
}
_UTC = pa.timestamp("us", tz="UTC")


def column_from_values(wanted: Type, values: Sequence[Any], report: Report) -> pa.Array:
    """A column from Python values, as JSON and sensors have them."""
    arrow_type = wanted.to_arrow()
    kinds: set[type] = set(map(type, values))
    try:
        if kinds <= _EXACT.get(wanted.kind, frozenset()):
            return pa.array(values, arrow_type)
        if wanted.kind == "TIMESTAMP" and kinds <= _EXACT["TEXT"]:
            return _in_range(_parse_times(pa.array(values, pa.string())))
        if wanted.kind == "TIMESTAMP" and kinds <= _EXACT["INT"]:
            return _in_range(pa.array(values, pa.int64()).view(_UTC))
    except (pa.ArrowException, OverflowError, ValueError):
        pass
    return _one_by_one(wanted, values, convert_value, report)


def column_from_arrow(wanted: Type, column: pa.ChunkedArray | pa.Array, report: Report) -> pa.Array:
    """A column from an Arrow column of whatever type; text is read as the type spells its values."""
    array = _whole(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    arrow_type = wanted.to_arrow()
    try:
        if array.type == arrow_type:
            return _in_range(array) if wanted.kind == "TIMESTAMP" else array
        if _casts(array.type, wanted):
            if wanted.kind == "TIMESTAMP":
                return _in_range(_to_times(array))
            return array.cast(arrow_type)
    except (pa.ArrowException, ValueError):
        pass
    text = _is_text(array.type)
    return _one_by_one(wanted, _to_python(array), parse_text if text else convert_value, report)


def times_of(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Microseconds of a TIMESTAMP column, NO_TIME where it is NULL."""
    whole = column.view(pa.int64())
    if whole.null_count:
        whole = pc.fill_null(whole, NO_TIME)
    return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=np.int64)


def _one_by_one(type: Type, values: Sequence[Any], convert: Callable[[Type, Any], Any], report: Report) -> pa.Array:
    converted: list[Any] = []
    for index, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(type, value))
        except ValueError as problem:
            report(index, str(problem))
            converted.append(None)
    return pa.array(converted, type.to_arrow())


def _parse_times(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(_UTC)  # every text names its zone
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us")).view(pa.int64()).view(_UTC)  # none does


def _to_times(array: pa.Array) -> pa.Array:
    if _is_text(array.type):
        return _parse_times(array.cast(pa.string()))
    if pa.types.is_integer(array.type):
        return array.cast(pa.int64()).view(_UTC)
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(_UTC, safe=array.type.unit != "ns")  # parts of a microsecond are cut off
    return array.cast(pa.timestamp("us"), safe=array.type != pa.timestamp("ns")).view(pa.int64()).view(_UTC)


def _in_range(times: pa.Array) -> pa.Array:
    bounds = pc.min_max(times.view(pa.int64()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < TS_MIN or high > TS_MAX):
        raise ValueError("a time lies outside the years 1 to 9999")
    return times


def _casts(given: pa.DataType, wanted: Type) -> bool:
    """Whether Arrow's cast means what `convert_value` means; a number is no text, a truth value no number."""
    if pa.types.is_null(given):
        return True
    number = pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given)
    match wanted.kind:
        case "INT" | "BIGINT" | "DOUBLE" | "DECIMAL":
            return number or (_is_text(given) and wanted.kind != "DECIMAL")
        case "BOOLEAN":
            return False
        case "TEXT":
            return _is_text(given)
        case "TIMESTAMP":
            return (
                pa.types.is_timestamp(given) or pa.types.is_date(given) or _is_text(given) or pa.types.is_integer(given)
            )
        case "BINARY":
            return bool(pa.types.is_large_binary(given) or pa.types.is_fixed_size_binary(given))
        case _:
            return False


def _is_text(given: pa.DataType) -> bool:
    return bool(pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given))


def _to_python(array: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        # Through integers: Python's datetime would raise on times outside the years 1 to 9999.
        return list(array.cast(pa.timestamp("us", tz=array.type.tz), safe=False).view(pa.int64()).to_pylist())
    values: list[Any] = array.to_pylist()
    return [datetime(v.year, v.month, v.day) if pa.types.is_date(array.type) and v else v for v in values]


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column
