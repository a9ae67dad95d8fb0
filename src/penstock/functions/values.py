"""Values that operations work on: an Arrow array as long as the batch, or an Arrow scalar for a constant.

An operation gets at least one array; the evaluator folds calls with constant arguments only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.expression import Call, Literal
from penstock.types import Type

Value: TypeAlias = Any
"""A pa.Array or pa.Scalar; pyarrow ships no types, so the checker cannot know."""

Implementation = Callable[[Sequence[Any], Call, int], Any]


@dataclass(frozen=True, slots=True)
class OperationInfo:
    """One operation: what it means, in a line, and how it is computed. A costly one takes more than some 20 ns a row."""

    description: str
    run: Implementation
    is_costly: bool = False


def literal_scalar(literal: Literal) -> pa.Scalar:
    """The Arrow scalar of a literal; decimals are stored as text, binaries as hex text."""
    arrow, value = literal.type.to_arrow(), literal.value
    if value is None:
        return pa.scalar(None, arrow)
    if literal.type.kind == "DECIMAL":
        value = Decimal(str(value))
    elif literal.type.kind == "BINARY" and isinstance(value, str):
        value = bytes.fromhex(value)
    return pa.scalar(value, arrow)


def constant(call: Call, index: int) -> Any:
    """The Python value of an argument that the binder promises to be a literal; None where it is absent."""
    if index >= len(call.arguments):
        return None
    argument = call.arguments[index]
    return argument.value if isinstance(argument, Literal) else None


def as_array(value: Value, rows: int) -> pa.Array:
    """The value as an array: a constant is repeated."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def fixed_width(value: pa.Array) -> npt.NDArray[Any]:
    """The raw values of a numeric or timestamp array without a copy; what stands under a NULL is arbitrary."""
    dtype = np.dtype(np.int64) if pa.types.is_timestamp(value.type) else np.dtype(value.type.to_pandas_dtype())
    buffer = value.buffers()[1]
    if buffer is None:
        return np.zeros(len(value), dtype)
    return np.frombuffer(buffer, dtype, count=len(value), offset=value.offset * dtype.itemsize)


def numbers(value: Value) -> Any:
    """Raw NumPy values of an array, or a NumPy scalar (0 for NULL) of a constant."""
    if isinstance(value, pa.Scalar):
        if pa.types.is_timestamp(value.type):
            return np.int64(value.value or 0)
        plain = value.as_py()
        return np.dtype(value.type.to_pandas_dtype()).type(0 if plain is None else plain)
    return fixed_width(value)


def nulls(arguments: Sequence[Value], rows: int) -> npt.NDArray[np.bool_] | None:
    """Where any argument is NULL; None where none is."""
    found: npt.NDArray[np.bool_] | None = None
    for argument in arguments:
        if isinstance(argument, pa.Scalar):
            if not argument.is_valid:
                return np.ones(rows, np.bool_)
        elif argument.null_count:
            here = argument.is_null().to_numpy(zero_copy_only=False)
            found = here if found is None else found | here
    return found


def with_nulls(values: npt.NDArray[Any], type_: pa.DataType, where: npt.NDArray[np.bool_] | None) -> pa.Array:
    """An array of `values` that is NULL at `where`."""
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64(), mask=where).cast(type_)
    return pa.array(values, type_, mask=where)


def row_by_row(function: Callable[..., Any], arguments: Sequence[Value], type_: Type, rows: int) -> pa.Array:
    """Apply a plain function per row without a NULL: for decimals and cases where exactness matters more than speed."""
    columns = [as_array(a, rows).to_pylist() for a in arguments]
    out = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    return pa.array(out, type_.to_arrow())


def per_distinct(function: Callable[[Any], Any], value: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Apply a plain function once per distinct value: columns of text repeat themselves."""
    encoded = value.dictionary_encode()
    mapped = pa.array([None if v is None else function(v) for v in encoded.dictionary.to_pylist()], arrow_type)
    return mapped.take(encoded.indices)


def is_float(value: Value) -> bool:
    return bool(pa.types.is_floating(value.type))


def is_decimal(value: Value) -> bool:
    return bool(pa.types.is_decimal(value.type))


def is_nested(value: Value) -> bool:
    return bool(pa.types.is_nested(value.type))
