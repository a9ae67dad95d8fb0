"""Correlated aggregates: an inner MIN, MAX or AVG decides which rows an outer aggregate sees. Exact, so values are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.slices.approximate.base import per_cell
from penstock.operators.slices.bands import edges_of, picked
from penstock.operators.slices.base import Ints, Numbers, Partial, State, Values
from penstock.operators.slices.doubled import add_pairs, add_rows
from penstock.operators.slices.extremes import take_extremes
from penstock.types import Type

Floats = npt.NDArray[np.float64]
_VALUE = np.dtype([("value", np.float64), ("known", np.bool_)])
PAIR = np.dtype([("x", np.float64), ("y", np.float64)])
PREFIX = "correlated"


class Correlated(Partial):
    """Arguments: what the inner aggregate is of, x, y, and whether the outer one may see the row at all.

    A function is `correlated OUTER INNER EDGE...`: the outer aggregate of y over the rows that the inner one picks by its edges
    (`bands`). The pairs (x, y) are kept one by one, so their number is limited.
    """

    name = PREFIX
    functions = frozenset({f"{PREFIX} count max ge mul 1.0"})  # one of many
    keeps_nulls = True

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function.startswith(PREFIX + " ") and len(types) == 4

    def fields(self) -> dict[str, tuple[Any, Any]]:
        sums = ("least", "greatest", "high", "low")
        return {"count": (np.int64, 0), **dict.fromkeys(sums, (np.float64, 0.0)), "pairs": (object, None)}

    def convert(self, values: pa.Array) -> Numbers:
        found = np.empty(len(values), _VALUE)
        found["value"] = super().convert(values)
        found["known"] = values.is_valid().to_numpy(zero_copy_only=False)
        return found

    def add(self, state: State, values: Values) -> None:
        self.add_inner(state, values)
        wanted, pairs = self.seen_pairs(values)
        for cell, rows in per_cell(values.cells[wanted]):
            state["pairs"][cell] = (state["pairs"][cell] or b"") + pairs[rows].tobytes()

    def add_inner(self, state: State, values: Values) -> None:
        """What the inner aggregate is about: all rows."""
        inner = values.numbers[0]
        known = inner["known"]
        cells, numbers = values.cells[known], np.ascontiguousarray(inner["value"][known])
        take_extremes(state["count"], state["least"], state["greatest"], cells, numbers, numbers, np.empty(0, np.int64))
        add_rows(state["high"], state["low"], cells, numbers)

    def seen_pairs(self, values: Values) -> tuple[Ints, Numbers]:
        """Which rows the outer aggregate may see, and their x and y."""
        _, x, y, seen = values.numbers
        wanted = np.flatnonzero(x["known"] & y["known"] & seen["known"] & (seen["value"] != 0))
        pairs = np.empty(len(wanted), PAIR)
        pairs["x"], pairs["y"] = x["value"][wanted], y["value"][wanted]
        return wanted, pairs

    def merge_inner(self, state: State, at: Ints, other: State) -> None:
        take_extremes(
            state["count"], state["least"], state["greatest"], at, other["least"], other["greatest"], other["count"]
        )
        add_pairs(state["high"], state["low"], at, other["high"], other["low"])

    def merge(self, state: State, at: Ints, other: State) -> None:
        self.merge_inner(state, at, other)
        for cell, rows in per_cell(at):
            parts = [data for data in [state["pairs"][cell], *other["pairs"][rows]] if data]
            state["pairs"][cell] = b"".join(parts) or None

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        _, outer, inner, *words = function.split(" ")
        edges, found = edges_of(words), []
        for i, data in enumerate(state["pairs"]):
            pairs = np.frombuffer(data or b"", PAIR)
            if state["count"][i]:
                ys = pairs["y"][picked(pairs["x"], inner_of(inner, state, i), edges)]
            else:
                ys = pairs["y"][:0]
            found.append(_outer(outer, ys))
        return pa.array(found, pa.float64(), from_pandas=False).cast(type_.to_arrow())

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        return pa.array(field.tolist(), pa.large_binary()) if name == "pairs" else super().to_arrow(name, field)

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + PAIR.itemsize * self.kept(state)

    def kept(self, state: State) -> int:
        return sum(len(data) for data in state["pairs"] if data) // PAIR.itemsize


def inner_of(inner: str, state: State, i: int) -> float:
    """The inner aggregate of cell i, which has values for it."""
    if inner == "avg":
        return float((state["high"][i] + state["low"][i]) / state["count"][i])
    return float(state["least" if inner == "min" else "greatest"][i])


def _outer(outer: str, ys: Floats) -> float | None:
    if outer == "count":
        return float(len(ys))
    if not len(ys):
        return None
    if outer in ("min", "max"):
        # NaN is the greatest.
        nan = np.isnan(ys)
        if outer == "max":
            return float("nan") if nan.any() else float(ys.max())
        return float("nan") if nan.all() else float(ys[~nan].min())
    high, low = np.zeros(1), np.zeros(1)
    add_rows(high, low, np.zeros(len(ys), np.int64), np.ascontiguousarray(ys))
    total = float(high[0] + low[0])
    return total / len(ys) if outer == "avg" else total
