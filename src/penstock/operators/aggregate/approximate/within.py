"""WITHIN n PERCENT: a correlated aggregate in buckets per cell, with lower and upper bounds that hold for certain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.approximate.base import Brackets, bytes_held
from penstock.operators.aggregate.approximate.intervals import (
    INTERVAL,
    Bag,
    as_one,
    beyond,
    points_of,
    row_by_row,
    thinned,
)
from penstock.operators.aggregate.partials.base import Ints, Numbers, State, Values, parts_per_cell
from penstock.operators.aggregate.partials.correlated import Correlated, Edges, cuts_of, edges_of, inner_of
from penstock.types import BIGINT, Type

WITHIN = "correlated_within"
_EVENLY = 40
"""Of what a mean picks, no bucket has more than its share if that is a fortieth of all rows or more."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters: which rows the outer aggregate sees, how fine the buckets of a cell are, how wide cells grow with age."""

    inner: str
    edges: Edges
    epsilon: float
    top_us: int
    recent_us: int


class Within(Correlated):
    """The inner aggregate as in `Correlated`, exactly; of the rows that may count, weighted intervals of x, or the rows
    themselves where these take less memory.

    A function is `correlated_within OUTER INNER EDGE... value|lower|upper`. Cells are used whole or not at all, so
    a window's maximum is never below a cell's own: what lies on the far side of the cell's threshold is decided already.
    """

    name = WITHIN
    functions = frozenset({f"{WITHIN} count max ge mul 1.0 value"})  # one of many

    def __init__(self, types: tuple[Type, ...], asked: Asked) -> None:
        super().__init__(types)
        self.asked = asked

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {**super().fields(), "bag": (object, None)}

    def add(self, state: State, values: Values) -> None:
        super().add(state, values)
        self.settle(state)

    def merge(self, state: State, at: Ints, other: State) -> None:
        super().merge(state, at, other)
        for cell, parts in parts_per_cell(state["bag"], at, other["bag"]):
            state["bag"][cell] = b"".join(parts)

    def settle(self, state: State) -> None:
        """Buckets instead of rows where that takes less memory, and fewer of them where cells were merged."""
        for cell, data in enumerate(state["pairs"]):
            if not data and not state["bag"][cell]:
                continue
            pairs = self._pairs(state, cell)
            bag = self._fitted(np.concatenate([points_of(pairs["x"], pairs["y"]), _bag(state, cell)]), state, cell)
            if not state["bag"][cell] and bag.nbytes >= len(data):
                continue
            state["pairs"][cell], state["bag"][cell] = None, bag.tobytes() or None

    def _fitted(self, bag: Bag, state: State, cell: int) -> Bag:
        asked, (edge, *others) = self.asked, self.asked.edges
        if asked.inner == "avg" or others or edge.how == "off":
            # A window's mean is not known in advance, but it is not where hardly any rows are.
            return thinned(bag, edge.comparison, asked.epsilon, _EVENLY / asked.epsilon)
        if not state["count"][cell] or not edge.rises:
            return thinned(bag, edge.comparison, asked.epsilon)
        ((key, _),) = self._cuts(state, cell)
        decided, _ = beyond(bag, key, "lt" if asked.inner == "max" else "gt")
        never = (asked.inner == "max") == (edge.comparison in ("ge", "gt"))
        return thinned(
            np.concatenate([bag[:0] if never else as_one(bag[decided]), bag[~decided]]), edge.comparison, asked.epsilon
        )

    def _pairs(self, state: State, cell: int) -> Numbers:
        pairs: Numbers = np.frombuffer(state["pairs"][cell] or b"", self.pair)
        return pairs

    def _cuts(self, state: State, cell: int) -> list[tuple[int, str]]:
        return cuts_of(inner_of(self.asked.inner, state, cell), self.asked.edges, self.types[1] == BIGINT)

    def _seen(self, bag: Bag, state: State, cell: int) -> tuple[Bag, Bag]:
        """The intervals of which all rows are seen, and those of which some may be."""
        sure, maybe = np.ones(len(bag), np.bool_), np.ones(len(bag), np.bool_)
        for cut in self._cuts(state, cell):
            wholly, partly = beyond(bag, *cut)
            sure, maybe = sure & wholly, maybe & partly
        return bag[sure], bag[maybe]

    def brackets(self, function: str, state: State, whole: bool = False) -> Brackets:
        """The outer aggregate per cell between its bounds. `whole`: it is a whole number."""
        outer = function.split(" ")[1]
        count = len(state["count"])
        lowers, uppers = np.zeros(count), np.zeros(count)
        known = np.full(count, outer == "count")
        with np.errstate(invalid="ignore", over="ignore"):
            for cell in range(count):
                if not state["count"][cell]:
                    continue
                pairs = self._pairs(state, cell)
                bag = np.concatenate([row_by_row(pairs["x"], pairs["y"]), _bag(state, cell)])
                sure, maybe = self._seen(bag, state, cell)
                rows = float(sure["count"].sum()), float(maybe["count"].sum())
                known[cell] |= rows[1] > 0
                lowers[cell], uppers[cell] = _bounds(outer, rows, sure, maybe)
            middles = (lowers + uppers) / 2
        if whole:
            middles = np.floor(middles)
        return Brackets(np.where(lowers == uppers, lowers, middles), lowers, uppers, known)

    def loose(self, function: str, state: State, share: float, whole: bool) -> bool:
        """Whether some bounds are wider than promised."""
        return not bool(self.brackets(function, state, whole).within(share).all())

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        found = self.brackets(function, state, type_.kind == "BIGINT")
        say = function.split(" ")[-1]
        values = found.lowers if say == "lower" else found.uppers if say == "upper" else found.values
        return pa.array(values, mask=~found.known, from_pandas=False).cast(type_.to_arrow())

    def nbytes(self, state: State) -> int:
        return sum(field.nbytes for field in state.values()) + bytes_held(state)

    def kept(self, state: State) -> int:
        return 0


def _bag(state: State, cell: int) -> Bag:
    bag: Bag = np.frombuffer(state["bag"][cell] or b"", INTERVAL)
    return bag


def _bounds(outer: str, rows: tuple[float, float], sure: Bag, maybe: Bag) -> tuple[float, float]:
    if outer == "count":
        return rows
    if rows[1] == 0:
        return 0.0, 0.0
    if rows[0] == 0:
        return -np.inf, np.inf  # it may be NULL
    low = float(sure["plus"].sum() - maybe["minus"].sum())
    high = float(maybe["plus"].sum() - sure["minus"].sum())
    if outer == "sum":
        return low, high
    ends = [total / many for total in (low, high) for many in rows]
    return min(ends), max(ends)


def within_name(function: str, parameters: tuple[float, ...]) -> str:
    """The partial of a call: the rows that it sees and how coarse it is, without the call's error bound and output."""
    _, _, inner, *edges, _ = function.split(" ")
    _, epsilon, top, recent = parameters
    return f"{WITHIN} {inner} {' '.join(edges)} {epsilon!r} {int(top)} {int(recent)}"


def make_within(name: str, types: tuple[Type, ...]) -> Within:
    _, inner, *edges, epsilon, top, recent = name.split(" ")
    return Within(types, Asked(inner, edges_of(edges), float(epsilon), int(top), int(recent)))
