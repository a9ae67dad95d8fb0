"""Three-valued logic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow.compute as pc

from penstock.expr.expression import Call
from penstock.functions.values import OperationInfo, Value


def _and(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return reduce(pc.and_kleene, arguments)


def _or(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return reduce(pc.or_kleene, arguments)


def _not(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return pc.invert(arguments[0])


def _is_null(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    return pc.is_null(arguments[0])


LOGIC = {
    "and": OperationInfo("a AND b AND ...", _and),
    "or": OperationInfo("a OR b OR ...", _or),
    "not": OperationInfo("NOT a", _not),
    "is_null": OperationInfo("a IS NULL; NaN is a value", _is_null),
}
