"""Arrow types by the names people know from SQL."""

from __future__ import annotations

import pyarrow as pa


def type_name(kind: pa.DataType) -> str:
    """The spelling that `penstock.types.parse_type` reads back; TEXT for what has no SQL name."""
    if pa.types.is_integer(kind):
        return "INT" if kind.bit_width <= 32 and kind != pa.uint32() else "BIGINT"
    if pa.types.is_floating(kind):
        return "DOUBLE"
    if pa.types.is_boolean(kind):
        return "BOOLEAN"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "BINARY"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "STRUCT<" + ", ".join(f"{field.name}: {type_name(field.type)}" for field in kind) + ">"
    return "TEXT"
