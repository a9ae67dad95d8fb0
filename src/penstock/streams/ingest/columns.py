"""Whole columns of readings made into columns of the declared types, as fast as Arrow does it.

A column that Arrow converts without a complaint is done; only one with a bad value is walked value by value, to
keep the good ones and to say what is wrong with the others. `report(index, sentence)` is called for each bad
value, which becomes NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.streams.ingest.values import TS_MAX, TS_MIN, convert_value, parse_text
from penstock.types import Type

Report = Callable[[int, str], None]

NO_TIME = np.iinfo(np.int64).min  # a reading that says no time

# Python types that `pa.array` converts to a type exactly as `convert_value` does.
_EXACT: dict[str, frozenset[type]] = {
    "INT": frozenset({int, type(None)}),
    "BIGINT": frozenset({int, type(None)}),
    "DOUBLE": frozenset({int, float, type(None)}),
    "BOOLEAN": frozenset({bool, type(None)}),
    "TEXT": frozenset({str, type(None)}),
    "BINARY": frozenset({bytes, type(None)}),
}
_TEXTS = frozenset({str, type(None)})
_WHOLE = frozenset({int, type(None)})
_UTC = pa.timestamp("us", tz="UTC")


def column_from_values(wanted: Type, values: Sequence[Any], report: Report) -> pa.Array:
    """A column from Python values, as JSON and sensors have them."""
    arrow_type = wanted.to_arrow()
    kinds: set[type] = set(map(type, values))
    try:
        if kinds <= _EXACT.get(wanted.kind, frozenset()):
            return pa.array(values, arrow_type)
        if wanted.kind == "TIMESTAMP" and kinds <= _TEXTS:
            return _in_range(_parse_times(pa.array(values, pa.string())))
        if wanted.kind == "TIMESTAMP" and kinds <= _WHOLE:
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
