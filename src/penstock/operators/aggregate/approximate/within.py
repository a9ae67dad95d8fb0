"""WITHIN n PERCENT: a correlated aggregate in buckets per cell, with lower and upper bounds that hold for certain.

The buckets are weighted closed intervals of a number line, which give certain bounds of the weight beyond any cut. To merge two
cells, their intervals are put together, overlapping or not, and none is ever cut. So no weight is made or lost, and only the
intervals that contain the cut are uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.aggregate.approximate.base import Brackets, bytes_held
from penstock.operators.aggregate.partials.base import Ints, Numbers, State, Values, parts_per_cell
from penstock.operators.aggregate.partials.correlated import Correlated, Edges, cuts_of, edges_of, inner_of, order_keys
from penstock.types import BIGINT, Type

Bag = Numbers
"""An array of INTERVAL."""
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

INTERVAL = np.dtype(
    [("low", np.int64), ("high", np.int64), ("count", np.int64), ("plus", np.float64), ("minus", np.float64)]
)
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


def points_of(x: Numbers, y: Floats) -> Bag:
    """One interval per distinct x, as short as can be, with the rows and the y of either sign that it has."""
    rows = row_by_row(x, y)
    rows = rows[np.argsort(rows["low"], kind="stable")]
    return _summed(rows, rows["low"])


def row_by_row(x: Numbers, y: Floats) -> Bag:
    """One for each row."""
    found = np.empty(len(x), INTERVAL)
    found["low"] = found["high"] = order_keys(x)
    found["count"], found["plus"], found["minus"] = 1, np.where(y < 0, 0.0, y), np.where(y < 0, -y, 0.0)
    return found


def beyond(bag: Bag, key: int, comparison: str) -> tuple[Mask, Mask]:
    """Which intervals lie as a whole on the requested side of a value, and which lie there at least in part."""
    low, high = bag["low"], bag["high"]
    if comparison == "ge":
        return low >= key, high >= key
    if comparison == "gt":
        return low > key, high > key
    if comparison == "lt":
        return high < key, low < key
    return high <= key, low <= key


def thinned(bag: Bag, comparison: str, epsilon: float, evenly: float = np.inf) -> Bag:
    """Merge neighbours while no bucket has more rows than `epsilon` of all rows further on the requested side.

    So a cut anywhere leaves a doubt of about `epsilon` of the rows beyond it. Buckets may also have one of `evenly` parts of
    all rows, where cuts are not expected among the outermost rows. A larger single bucket stays as it is.
    """
    above = comparison in ("ge", "gt")
    order = np.lexsort((bag["high"], bag["low"]))
    bag = bag[order[::-1] if above else order]
    counts = bag["count"].astype(np.float64)
    further = np.cumsum(counts) - counts
    least = max(1.0, counts.sum() / evenly)
    heavy = counts > np.maximum(least, epsilon * further)
    # How many buckets of the allowed size lie further: `least` rows each at first, then growing with what they add up to.
    even = least / epsilon
    numbers = np.floor(np.minimum(further, even) / least + np.log(np.maximum(further / even, 1.0)) / epsilon)
    # A new number also at and behind what stays alone.
    numbers = numbers.astype(np.int64) + 2 * np.cumsum(heavy) - heavy
    return _summed(bag, numbers)


def as_one(bag: Bag) -> Bag:
    """All of it as one interval."""
    return bag if len(bag) < 2 else _summed(bag, np.zeros(len(bag), np.int64))


def _summed(bag: Bag, numbers: Ints) -> Bag:
    """One interval for each run of equal numbers."""
    if not len(numbers):
        return np.empty(0, INTERVAL)
    begins = np.flatnonzero(np.append(True, np.diff(numbers) != 0))
    found = np.empty(len(begins), INTERVAL)
    found["low"] = np.minimum.reduceat(bag["low"], begins)
    found["high"] = np.maximum.reduceat(bag["high"], begins)
    for name in ("count", "plus", "minus"):
        found[name] = np.add.reduceat(bag[name], begins)
    return found
