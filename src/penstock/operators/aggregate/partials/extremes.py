"""MIN and MAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.types import Type

_KINDS = frozenset({"INT", "BIGINT", "DOUBLE", "TIMESTAMP", "BOOLEAN"})


class Extremes(Partial):
    """The smallest and the largest value. NaN is above every number, as everywhere in Penstock."""

    name = "extremes"
    functions = frozenset({"min", "max"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function in cls.functions and len(types) == 1 and types[0].kind in _KINDS

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
