"""Correlated aggregates: an inner MIN, MAX or AVG decides which rows an outer aggregate sees. Exact, so values are kept.

Rows count with x on the right side of one edge, or of several. An edge is `COMPARISON HOW CONSTANT`. `mul` and `add` compare
x with the inner aggregate times or plus the constant. `off` compares the distance of x from the inner aggregate with the
constant. `mul64` and `add32` do the same for integers of that many bits, which wrap around as everywhere in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.functions.comparisons import compare_floats
from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values, parts_per_cell, per_cell
from penstock.operators.aggregate.partials.extremes import take_extremes
from penstock.operators.aggregate.partials.sums import Floats, add_pairs, add_rows
from penstock.types import BIGINT, Type

PREFIX = "correlated"
INNER = ("count", "least", "greatest", "high", "low")
"""The fields of the inner aggregate."""
Mask = npt.NDArray[np.bool_]
_GREATEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Edge:
    comparison: str
    how: str
    constant: int | float

    @property
    def rises(self) -> bool:
        """Whether a greater inner aggregate never means a lower threshold. Whole numbers may wrap around."""
        if self.how.startswith("mul"):
            return self.constant > 0 if self.how == "mul" else self.constant == 1
        return self.how == "add"

    def threshold(self, inner: int | float) -> int | float:
        """What x is compared with."""
        how, bits = self.how[:3], int(self.how[3:] or 0)
        if not bits:
            inner = float(inner)
            return inner * self.constant if how == "mul" else inner + self.constant
        whole = int(inner) * int(self.constant) if how == "mul" else int(inner) + int(self.constant)
        half = 1 << (bits - 1)
        return (whole + half) % (2 * half) - half

    def __str__(self) -> str:
        return f"{self.comparison} {self.how} {self.constant!r}"


Edges = tuple[Edge, ...]


def edges_of(words: list[str]) -> Edges:
    """Three words each."""
    return tuple(_edge(*words[i : i + 3]) for i in range(0, len(words), 3))


def _edge(comparison: str, how: str, constant: str) -> Edge:
    return Edge(comparison, how, int(constant) if how[3:].isdecimal() else float(constant))


def picked(x: Numbers, inner: int | float, edges: Edges) -> Mask:
    """Which rows lie on the right side of all edges."""
    found = np.ones(len(x), np.bool_)
    for edge in edges:
        found &= _side(x, inner, edge)
    return found


def _side(x: Numbers, inner: int | float, edge: Edge) -> Mask:
    threshold = edge.constant if edge.how == "off" else edge.threshold(inner)
    with np.errstate(invalid="ignore", over="ignore"):
        compared = np.abs(x - float(inner)) if edge.how == "off" else x
    found: Mask = compare_floats(edge.comparison, compared, threshold)
    return found


def cuts_of(inner: int | float, edges: Edges, whole: bool = False) -> list[tuple[int, str]]:
    """The same edges on the line of order keys, each with the side that is meant. `whole`: x are whole numbers."""
    cuts: list[tuple[int, str]] = []
    for edge in edges:
        if edge.how == "off":
            cuts += _around(float(inner), edge)
        else:
            cuts.append((_key(edge.threshold(inner), whole), edge.comparison))
    return cuts


def _around(inner: float, edge: Edge) -> list[tuple[int, str]]:
    """From the first to the last x that is near enough. Rounded differences decide, so the ends are searched for."""
    if not np.isfinite(inner) or not _near(_key(inner), inner, edge):
        return [(_key(np.nan), "gt")]  # nothing is
    low, high = _key(-np.inf), _key(np.inf)
    return [(_last(_key(inner), low, inner, edge), "ge"), (_last(_key(inner), high, inner, edge), "le")]


def _last(near: int, far: int, inner: float, edge: Edge) -> int:
    """The last key on the way from one that is near enough that is so, too."""
    if _near(far, inner, edge):
        return far
    while abs(far - near) > 1:
        middle = near + (far - near) // 2 if far > near else near - (near - far) // 2
        near, far = (middle, far) if _near(middle, inner, edge) else (near, middle)
    return near


def _near(key: int, inner: float, edge: Edge) -> bool:
    return bool(_side(key_values(np.array([key])), inner, edge)[0])


def _key(value: int | float, whole: bool = False) -> int:
    return int(order_keys(np.array([value], np.int64 if whole else np.float64))[0])


def order_keys(x: Numbers) -> Ints:
    """Whole numbers in the order of x, which they may be already: NaN is the greatest, and both zeros are one."""
    if x.dtype == np.int64:
        return x.copy()
    bits = (x + 0.0).view(np.int64)
    keys: Ints = np.where(bits < 0, bits ^ np.int64(_GREATEST), bits)
    keys[np.isnan(x)] = _GREATEST
    return keys


def key_values(keys: Ints) -> Floats:
    """The values that have these keys."""
    values: Floats = np.where(keys < 0, keys ^ np.int64(_GREATEST), keys).view(np.float64)
    return values


class Correlated(Partial):
    """A correlated aggregate. Arguments: the inner aggregate's value, x, y, and whether the outer aggregate may see the row.

    A function is `correlated OUTER INNER EDGE...`: the outer aggregate of y over the rows that the inner one picks by its edges
    (`Edge`); without edges over all. The pairs (x, y) are kept one by one, so their number is limited. BIGINT stays whole.
    """

    name = PREFIX
    functions = frozenset({f"{PREFIX} count max ge mul 1.0"})  # one of many
    keeps_nulls = True

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function.startswith(cls.name + " ") and len(types) == 4

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
        inner, x, y, seen = values.numbers
        # The inner aggregate is about all rows, the outer one about those that it may see.
        known = inner["known"]
        cells, numbers = values.cells[known], np.ascontiguousarray(inner["value"][known])
        take_extremes(state["count"], state["least"], state["greatest"], cells, numbers, numbers, np.empty(0, np.int64))
        add_rows(state["high"], state["low"], cells, numbers.astype(np.float64, copy=False))
        wanted = np.flatnonzero(x["known"] & y["known"] & seen["known"] & (seen["value"] != 0))
        pairs = np.empty(len(wanted), self.pair)
        pairs["x"], pairs["y"] = x["value"][wanted], y["value"][wanted]
        for cell, rows in per_cell(values.cells[wanted]):
            state["pairs"][cell] = (state["pairs"][cell] or b"") + pairs[rows].tobytes()

    def merge_inner(self, state: State, at: Ints, other: State) -> None:
        take_extremes(
            state["count"], state["least"], state["greatest"], at, other["least"], other["greatest"], other["count"]
        )
        add_pairs(state["high"], state["low"], at, other["high"], other["low"])

    def merge(self, state: State, at: Ints, other: State) -> None:
        self.merge_inner(state, at, other)
        for cell, parts in parts_per_cell(state["pairs"], at, other["pairs"]):
            state["pairs"][cell] = b"".join(parts)

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
