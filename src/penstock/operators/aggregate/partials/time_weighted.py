"""TWA: the average over time of a value that stands until the next one is reported."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Numbers, State, Values
from penstock.operators.aggregate.partials.value_lists import ValueLists
from penstock.types import Type

_PARTS = 3  # ts, position, value: all of them fit into a double


class TimeWeighted(ValueLists):
    """Every reading with its time: a late one may come between any two, and both parts of a slice may interleave."""

    name = "weighted"
    functions = frozenset({"twa"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return super().takes(function, types) and len(types) == 1

    def item_type(self) -> pa.DataType:
        return pa.float64()

    def column(self, values: Values) -> Numbers:
        parts = (values.times, values.positions, values.numbers[0])
        return np.stack([part.astype(np.float64) for part in parts], axis=1)

    def joined(self, parts: list[Numbers]) -> Numbers:
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name != "values":
            return super().to_arrow(name, field)
        flat: Numbers = np.full(len(field), None, object)
        for i, part in enumerate(field):
            flat[i] = None if part is None else part.ravel()
        return super().to_arrow(name, flat)

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        field = super().from_arrow(name, column)
        if name == "values":
            for i, part in enumerate(field):
                field[i] = None if part is None else part.reshape(-1, _PARTS)
        return field

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + 8 * (_PARTS - 1) * self.kept(state)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        """`parameter`: until when the last value stands, per cell."""
        found = [
            None if part is None else time_weighted(part, float(end))
            for part, end in zip(state["values"], np.broadcast_to(parameter, len(state["size"])), strict=True)
        ]
        return pa.array(found, type_.to_arrow(), from_pandas=False)


def time_weighted(readings: Numbers, end: float) -> float:
    """The average from the first reading to the end. Of several at one time the last to come counts."""
    ordered = readings[np.lexsort((readings[:, 1], readings[:, 0]))]
    times, values = ordered[:, 0], ordered[:, 2]
    spans = np.diff(np.append(times, max(end, times[-1])))
    total = float(spans.sum())
    if total == 0:
        return float(values[-1])
    stood = spans > 0
    weights = values[stood] * spans[stood]
    return (math.fsum(weights) if np.isfinite(weights).all() else float(weights.sum())) / total
