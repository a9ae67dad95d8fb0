"""Timestamps moved and compared in microseconds, and fields of structs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.expression import Call
from penstock.functions.values import OperationInfo, Value, constant, nulls, numbers, with_nulls


def _add_us(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    with np.errstate(over="ignore"):
        out = np.add(numbers(arguments[0]), numbers(arguments[1]), dtype=np.int64)
    return with_nulls(out, call.type.to_arrow(), nulls(arguments, rows))


def _diff_us(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    with np.errstate(over="ignore"):
        out = np.subtract(numbers(arguments[0]), numbers(arguments[1]), dtype=np.int64)
    return with_nulls(out, pa.int64(), nulls(arguments, rows))


def _get_field(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return pc.struct_field(arguments[0], constant(call, 1))


TIMES = {
    "add_us": OperationInfo("a timestamp moved by microseconds", _add_us),
    "diff_us": OperationInfo("microseconds from timestamp b to timestamp a", _diff_us),
    "get_field": OperationInfo("one field of a struct", _get_field),
}
