"""Rows as JSON, the same wherever they leave.

What JSON has no word for is written as text: timestamps in ISO 8601, DECIMAL exactly, BINARY in base64, and
NaN and the infinities by name.
"""

from __future__ import annotations

import base64
import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def row_objects(table: pa.Table) -> list[dict[str, Any]]:
    names = unique_names(table.schema.names)
    columns = [json_values(column) for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def unique_names(names: list[str]) -> list[str]:
    """Names with a number behind repeated ones: the second `ppm` becomes `ppm_2`, unless another column is called so."""
    taken: dict[str, None] = {}
    for name in names:
        candidate, number = name, 2
        while candidate in taken or (candidate != name and candidate in names):
            candidate, number = f"{name}_{number}", number + 1
        taken[candidate] = None
    return list(taken)


def json_values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values as orjson writes them; whole columns at once where Arrow can."""
    kind = column.type
    if pa.types.is_struct(kind) and kind.num_fields:
        return _structs(column.combine_chunks())
    if pa.types.is_list(kind):
        return _lists(column.combine_chunks())
    if pa.types.is_timestamp(kind):
        return list(timestamp_texts(column).to_pylist())
    if pa.types.is_floating(kind):
        plain = pc.all(pc.is_finite(column), min_count=0).as_py()
    else:
        plain = any(of(kind) for of in (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_null))
    values: list[Any] = column.to_pylist()
    return values if plain else [json_value(value) for value in values]


def _structs(column: pa.StructArray) -> list[Any]:
    names = [field.name for field in column.type]
    fields = [json_values(pa.chunked_array([part])) for part in column.flatten()]
    found: list[Any] = [dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True)]
    return found if not column.null_count else _with_nulls(column, found)


def _lists(column: pa.ListArray) -> list[Any]:
    elements, found, begin = json_values(pa.chunked_array([column.flatten()])), [], 0
    for size in column.value_lengths().fill_null(0).to_pylist():
        found.append(elements[begin : begin + size])
        begin += size
    return found if not column.null_count else _with_nulls(column, found)


def _with_nulls(column: pa.Array, values: list[Any]) -> list[Any]:
    pairs = zip(values, column.is_valid().to_pylist(), strict=True)
    return [value if is_valid else None for value, is_valid in pairs]


def timestamp_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    utc = column.cast(pa.timestamp("us", tz="UTC"))
    return pc.strftime(utc, format="%Y-%m-%dT%H:%M:%SZ")


def json_value(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        # A map arrives as pairs; it and an array look alike in JSON.
        return [json_value(part) for part in value]
    return value if isinstance(value, (str, int, bool)) or value is None else str(value)
