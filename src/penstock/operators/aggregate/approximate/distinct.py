"""APPROX_DISTINCT: timed bitmaps of Flajolet and Martin, kept as a list of the set bits with the last time of each.

A value's hash picks one of the maps and, with probability 2^-(i+1), its bit i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.approximate.base import Bracketed, Brackets, Coarseness, Floats, hashes_of
from penstock.operators.aggregate.partials.base import SCALAR_KINDS, Ints, Numbers, State, Values
from penstock.types import Type

BITS = 32
_FRACTION = 0.77351  # bias of the position of the lowest unset bit (Flajolet and Martin)
_SMALL = 1.75  # correction for few values (Scheuermann and Mauve)
_DEVIATION = 0.78  # standard error of one map's worth of averaging
_BIT = np.dtype([("time", np.int64), ("place", np.int32)])
_SURER = 1.5
"""The bounds of `distinct_count` are two standard errors; SQL's are three."""


@dataclass(frozen=True, slots=True)
class DistinctCount:
    """How many distinct values there are, between bounds of two standard errors."""

    value: float
    lower: float
    upper: float

    @property
    def error(self) -> float:
        """How far the truth can be from the value, at most."""
        return max(self.upper - self.value, self.value - self.lower)


def map_count(epsilon: float) -> int:
    """The power of two of maps for which two standard errors are `epsilon`."""
    return 1 << max(4, math.ceil(2 * math.log2(2 * _DEVIATION / epsilon)))


def distinct_count(bits: npt.NDArray[np.bool_]) -> DistinctCount:
    """The count from the set bits: one row per map; columns beyond the highest set bit may be left out."""
    maps = len(bits)
    empty = int((~bits.any(axis=1)).sum())
    if empty == maps:
        return DistinctCount(0.0, 0.0, 0.0)
    runs = np.where(bits.all(axis=1), bits.shape[1], np.argmin(bits, axis=1)).mean()
    value = maps / _FRACTION * (2**runs - 2 ** (-_SMALL * runs))
    share = 2 * _DEVIATION / math.sqrt(maps)
    if empty and value < 1.5 * maps:
        # While maps are empty, their number alone gives a better estimate.
        value = maps * math.log(maps / empty)
        load = value / maps
        share = 2 * math.sqrt(maps * (math.exp(load) - load - 1)) / value
    return DistinctCount(value, max(1.0, value * (1 - share) - 1), value * (1 + share) + 1)


@kernel
def places(hashes: npt.NDArray[np.uint64], maps: int) -> tuple[Ints, Ints]:
    """Which map and which of its bits each value sets."""
    rows, bits = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
    for i in range(len(hashes)):
        rows[i] = hashes[i] % np.uint64(maps)
        rest, bit = hashes[i] // np.uint64(maps), 0
        while bit < BITS - 1 and rest & np.uint64(1) == np.uint64(0):
            rest >>= np.uint64(1)
            bit += 1
        bits[i] = bit
    return rows, bits


class ApproxDistinct(Bracketed):
    """How many distinct values there are, within `epsilon` with a probability of 99.7 %.

    A bit counts while the time of its last setting is inside. So cells of any width answer for any BEGIN, and all but the
    newest cells of a group become one.
    """

    name = "approx_distinct"
    functions = frozenset({"approx_distinct", "approx_distinct_error"})
    kinds = SCALAR_KINDS
    brackets_cut = False

    def __init__(self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness) -> None:
        super().__init__(types, epsilon, coarseness)
        self.maps = map_count(epsilon / _SURER)

    def own(self) -> dict[str, tuple[Any, Any]]:
        return {"bits": (object, None)}

    def convert(self, values: pa.Array) -> Numbers:
        return hashes_of(values)

    def take(self, state: State, values: Values) -> None:
        rows, bits = places(values.numbers[0].view(np.uint64), self.maps)
        found = np.empty(len(rows), _BIT)
        found["time"], found["place"] = values.times, rows * BITS + bits
        self._put(state, values.cells, found)

    def join(self, state: State, at: Ints, other: State, prefix: str) -> None:
        parts = [np.frombuffer(data or b"", _BIT) for data in other["bits"]]
        if parts:
            self._put(state, np.repeat(at, [len(part) for part in parts]), np.concatenate(parts))

    def _put(self, state: State, cells: Ints, found: npt.NDArray[Any]) -> None:
        """Take bits in; of each the latest setting counts."""
        if not len(found):
            return
        touched = np.unique(cells)
        known = [np.frombuffer(state["bits"][cell] or b"", _BIT) for cell in touched.tolist()]
        cells = np.concatenate([np.repeat(touched, [len(part) for part in known]), cells])
        found = np.concatenate([*known, found])
        order = np.lexsort((found["time"], found["place"], cells))
        cells, found = cells[order], found[order]
        last = np.append((cells[1:] != cells[:-1]) | (np.diff(found["place"]) != 0), True)
        cells, found = cells[last], found[last]
        ends = np.searchsorted(cells, touched, side="right")
        for cell, low, high in zip(touched.tolist(), [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            state["bits"][cell] = found[low:high].tobytes()

    def restricted(self, state: State, low: int) -> State:
        found = self.empty(len(state["newest"]))
        found["newest"] = state["newest"]
        for i, data in enumerate(state["bits"]):
            bits = np.frombuffer(data or b"", _BIT)
            found["bits"][i] = bits[bits["time"] >= low].tobytes()
        return found

    def within(self, state: State) -> npt.NDArray[np.bool_]:
        return np.ones(len(state["newest"]), np.bool_)

    def weights(self, state: State) -> Floats:
        return np.zeros(len(state["newest"]))

    def brackets(self, state: State) -> Brackets:
        values, slacks = np.zeros(len(state["bits"])), np.zeros(len(state["bits"]))
        for i, data in enumerate(state["bits"]):
            bits = np.frombuffer(data or b"", _BIT)
            if len(bits):
                rows, columns = np.divmod(bits["place"], BITS)
                inside = np.zeros((self.maps, int(columns.max()) + 1), np.bool_)
                inside[rows, columns] = True
                count = distinct_count(inside)
                values[i], slacks[i] = np.round(count.value), _SURER * count.error
        return Brackets(values, values - slacks, values + slacks, np.ones(len(values), np.bool_))
