"""COUNT, SUM and AVG of DISTINCT values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Numbers, State
from penstock.operators.aggregate.partials.objects import KINDS, item_bytes, objects_of
from penstock.operators.aggregate.partials.value_lists import ValueLists
from penstock.types import Type

_NUMBERS = frozenset({"INT", "BIGINT", "DOUBLE"})
_WHOLE = frozenset({"TIMESTAMP", "BOOLEAN"})


class Distinct(ValueLists):
    """Every value once. NaNs are equal, and so are both zeros, as in GROUP BY."""

    name = "distinct"
    functions = frozenset({"count_distinct", "sum_distinct", "avg_distinct"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        kinds = _NUMBERS | _WHOLE | KINDS if function == "count_distinct" else _NUMBERS
        return function in cls.functions and len(types) == 1 and types[0].kind in kinds

    @property
    def _objects(self) -> bool:
        return self.types[0].kind in KINDS

    def convert(self, values: pa.Array) -> Numbers:
        if self._objects:
            return objects_of(values)
        numbers = super().convert(values)
        return numbers if self.whole else numbers + 0.0  # -0.0 + 0.0 is 0.0

    def joined(self, parts: list[Numbers]) -> Numbers:
        if self._objects:
            found = set().union(*parts)
            kept: Numbers = np.empty(len(found), object)
            kept[:] = list(found)
            return kept
        return np.unique(np.concatenate(parts))

    def item_type(self) -> pa.DataType:
        return self.types[0].to_arrow() if self._objects else super().item_type()

    def items_of(self, flat: pa.Array) -> Numbers:
        return objects_of(flat) if self._objects else super().items_of(flat)

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + (item_bytes(state["values"]) if self._objects else 0)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        if function == "count_distinct":
            return pa.array(state["size"]).cast(type_.to_arrow())
        sums = [None if part is None else _sum(part.tolist()) for part in state["values"]]
        if function == "avg_distinct":
            sums = [None if s is None else s / n for s, n in zip(sums, state["size"].tolist(), strict=True)]
        elif self.whole:
            sums = [None if s is None else (s + 2**63) % 2**64 - 2**63 for s in sums]  # it wraps around, as SUM does
        return pa.array(sums, type_.to_arrow(), from_pandas=False)


def _sum(values: list[Any]) -> Any:
    if isinstance(values[0], int):
        return sum(values)
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
