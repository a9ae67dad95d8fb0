"""MIN and MAX of TEXT, DECIMAL and BINARY."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.operators.aggregate.partials.objects import KINDS, object_bytes, objects_of
from penstock.types import Type


class OrderedExtremes(Partial):
    """The first and the last value in order: of text by its characters' numbers, which is the order of its bytes."""

    name = "ordered"
    functions = frozenset({"min", "max"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function in cls.functions and len(types) == 1 and types[0].kind in KINDS

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
