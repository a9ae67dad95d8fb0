"""Choosing among values: CASE, COALESCE, NULLIF, GREATEST, LEAST."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.expression import Call
from penstock.functions.casts import cast_value
from penstock.functions.comparisons import compare
from penstock.functions.values import OperationInfo, Value, as_array


def _case(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    pairs = len(arguments) // 2
    conditions = [as_array(arguments[2 * i], rows) for i in range(pairs)]
    values = [cast_value(arguments[2 * i + 1], call.type) for i in range(pairs)]
    if len(arguments) % 2:
        values.append(cast_value(arguments[-1], call.type))
    return pc.case_when(pa.StructArray.from_arrays(conditions, [str(i) for i in range(pairs)]), *values)


def _coalesce(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return pc.coalesce(*(cast_value(a, call.type) for a in arguments))


def _nullif(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    equal = compare("eq", arguments[0], arguments[1], rows)
    value = cast_value(arguments[0], call.type)
    return pc.if_else(pc.fill_null(equal, False), pa.scalar(None, value.type), value)


def _extreme(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    """NULLs are skipped; NULL only where all are."""
    better = "gt" if call.operation == "greatest" else "lt"

    def pick(best: Value, other: Value) -> Value:
        wins = pc.fill_null(compare(better, other, best, rows), False)
        return pc.if_else(pc.or_(wins, pc.is_null(best)), other, best)

    return reduce(pick, [as_array(cast_value(a, call.type), rows) for a in arguments])


CHOICES = {
    "case": OperationInfo("CASE WHEN c1 THEN v1 ... ELSE e END; NULL without ELSE", _case),
    "coalesce": OperationInfo("the first that is not NULL", _coalesce),
    "nullif": OperationInfo("a, but NULL where a = b", _nullif),
    "greatest": OperationInfo("the greatest that is not NULL", _extreme),
    "least": OperationInfo("the least that is not NULL", _extreme),
}
