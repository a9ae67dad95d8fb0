"""Correlated aggregates: an inner MIN, MAX or AVG decides which rows an outer aggregate sees. Exact, so values are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.approximate.base import per_cell
from penstock.operators.aggregate.partials.bands import Edges, edges_of, picked
from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.operators.aggregate.partials.double_double import add_pairs, add_rows
from penstock.operators.aggregate.partials.extremes import take_extremes
from penstock.types import BIGINT, Type

PREFIX = "correlated"
INNER = ("count", "least", "greatest", "high", "low")
"""The fields of the inner aggregate."""


class Correlated(Partial):
    """A correlated aggregate. Arguments: the inner aggregate's value, x, y, and whether the outer aggregate may see the row.

    A function is `correlated OUTER INNER EDGE...`: the outer aggregate of y over the rows that the inner one picks by its edges
    (`bands`); without edges over all. The pairs (x, y) are kept one by one, so their number is limited. BIGINT stays whole.
    """

    name = PREFIX
    functions = frozenset({f"{PREFIX} count max ge mul 1.0"})  # one of many
    keeps_nulls = True

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function.startswith(PREFIX + " ") and len(types) == 4

    @property
    def pair(self) -> np.dtype[Any]:
        _, x, y, _ = self.types
        return np.dtype([("x", _number(x)), ("y", _number(y))])

    def fields(self) -> dict[str, tuple[Any, Any]]:
        extreme = (_number(self.types[0]), 0)
        sums = dict.fromkeys(("high", "low"), (np.float64, 0.0))
        return {"count": (np.int64, 0), "least": extreme, "greatest": extreme, **sums, "pairs": (object, None)}

    def convert(self, values: pa.Array) -> Numbers:
        number = np.int64 if values.type == pa.int64() else np.float64
        found = np.empty(len(values), np.dtype([("value", number), ("known", np.bool_)]))
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
        add_rows(state["high"], state["low"], cells, numbers.astype(np.float64, copy=False))

    def seen_pairs(self, values: Values) -> tuple[Ints, Numbers]:
        """Which rows the outer aggregate may see, and their x and y."""
        _, x, y, seen = values.numbers
        wanted = np.flatnonzero(x["known"] & y["known"] & seen["known"] & (seen["value"] != 0))
        pairs = np.empty(len(wanted), self.pair)
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
        edges = edges_of(words)
        found = [_outer(outer, self.picked(state, i, inner, edges)["y"]) for i in range(len(state["pairs"]))]
        whole = self.types[2] == BIGINT and outer in ("sum", "min", "max")
        return pa.array(found, pa.int64() if whole else pa.float64(), from_pandas=False).cast(type_.to_arrow())

    def picked(self, state: State, cell: int, inner: str, edges: Edges) -> Numbers:
        """The pairs of the rows that the inner aggregate picks."""
        pairs: Numbers = np.frombuffer(state["pairs"][cell] or b"", self.pair)
        if not edges:
            return pairs
        return pairs[picked(pairs["x"], inner_of(inner, state, cell), edges)] if state["count"][cell] else pairs[:0]

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        return pa.array(field.tolist(), pa.large_binary()) if name == "pairs" else super().to_arrow(name, field)

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + self.pair.itemsize * self.kept(state)

    def kept(self, state: State) -> int:
        return sum(len(data) for data in state["pairs"] if data) // self.pair.itemsize


def inner_of(inner: str, state: State, i: int) -> int | float:
    """The inner aggregate of cell i, which has values for it."""
    if inner == "avg":
        return float((state["high"][i] + state["low"][i]) / state["count"][i])
    found: int | float = state["least" if inner == "min" else "greatest"][i].item()
    return found


def _number(type_: Type) -> Any:
    """What a value is inside: INT fits into a double, BIGINT does not."""
    return np.int64 if type_ == BIGINT else np.float64


def _outer(outer: str, ys: Numbers) -> int | float | None:
    if outer == "count":
        return float(len(ys))
    if not len(ys):
        return None
    if ys.dtype == np.int64 and outer != "avg":
        # A sum wraps around, as everywhere.
        return int(ys.sum() if outer == "sum" else ys.min() if outer == "min" else ys.max())
    if outer in ("min", "max"):
        # NaN is the greatest.
        nan = np.isnan(ys)
        if outer == "max":
            return float("nan") if nan.any() else float(ys.max())
        return float("nan") if nan.all() else float(ys[~nan].min())
    high, low = np.zeros(1), np.zeros(1)
    add_rows(high, low, np.zeros(len(ys), np.int64), np.ascontiguousarray(ys, np.float64))
    total = float(high[0] + low[0])
    return total / len(ys) if outer == "avg" else total
