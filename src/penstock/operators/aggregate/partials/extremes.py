"""MIN and MAX: of machine numbers, and of TEXT, DECIMAL and BINARY."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import NUMBER_KINDS, OBJECT_KINDS, Ints, Numbers, Partial, State, Values
from penstock.operators.aggregate.partials.objects import object_bytes, objects_of
from penstock.types import Type


class Extremes(Partial):
    """The smallest and the largest value. NaN is above every number, as everywhere in Penstock."""

    name = "extremes"
    functions = frozenset({"min", "max"})
    kinds = NUMBER_KINDS

    def fields(self) -> dict[str, tuple[Any, Any]]:
        dtype = np.int64 if self.whole else np.float64
        return {"count": (np.int64, 0), "least": (dtype, 0), "greatest": (dtype, 0)}

    def add(self, state: State, values: Values) -> None:
        (numbers,) = values.numbers
        take_extremes(state["count"], state["least"], state["greatest"], values.cells, numbers, numbers, _ONE)

    def merge(self, state: State, at: Ints, other: State) -> None:
        least, greatest = other["least"], other["greatest"]
        take_extremes(state["count"], state["least"], state["greatest"], at, least, greatest, other["count"])

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        values = state["least"] if function == "min" else state["greatest"]
        if type_.kind == "BOOLEAN":
            values = values.astype(np.bool_)
        return pa.array(values, mask=state["count"] == 0).cast(type_.to_arrow())


_ONE = np.empty(0, np.int64)  # each value counts once


@kernel
def take_extremes(
    count: Ints, least: Numbers, greatest: Numbers, at: Ints, lows: Numbers, highs: Numbers, counts: Ints
) -> None:
    for i in range(len(at)):
        c = at[i]
        many = counts[i] if len(counts) else 1
        if many == 0:
            continue
        # x != x holds for NaN alone.
        if count[c] == 0 or lows[i] < least[c] or (least[c] != least[c] and lows[i] == lows[i]):
            least[c] = lows[i]
        if count[c] == 0 or highs[i] > greatest[c] or highs[i] != highs[i]:
            greatest[c] = highs[i]
        count[c] += many


class OrderedExtremes(Partial):
    """The first and the last value in order: of text by its characters' numbers, which is the order of its bytes."""

    name = "ordered"
    functions = frozenset({"min", "max"})
    kinds = OBJECT_KINDS

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"least": (object, None), "greatest": (object, None)}

    def convert(self, values: pa.Array) -> Numbers:
        return objects_of(values)

    def add(self, state: State, values: Values) -> None:
        (found,) = values.numbers
        _take(state, values.cells, found, found)

    def merge(self, state: State, at: Ints, other: State) -> None:
        known = np.array([value is not None for value in other["least"]], np.bool_)
        _take(state, at[known], other["least"][known], other["greatest"][known])

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        values = state["least"] if function == "min" else state["greatest"]
        return pa.array(values.tolist(), type_.to_arrow())

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        return pa.array(field.tolist(), self.types[0].to_arrow())

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        return objects_of(column)

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + object_bytes(state["least"], state["greatest"])


def _take(state: State, at: Ints, lows: Numbers, highs: Numbers) -> None:
    least, greatest = state["least"], state["greatest"]
    for cell, low, high in zip(at.tolist(), lows, highs, strict=True):
        if least[cell] is None or low < least[cell]:
            least[cell] = low
        if greatest[cell] is None or high > greatest[cell]:
            greatest[cell] = high
