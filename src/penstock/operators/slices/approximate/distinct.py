"""APPROX_DISTINCT: timed Flajolet-Martin bitmaps, kept as the list of the bits that are set and when each was last."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.joins.keys import key_numbers
from penstock.operators.slices.approximate.base import Approximate, Brackets, Coarseness, Floats
from penstock.operators.slices.base import Ints, Numbers, State, Values
from penstock.operators.synopses.base import BEFORE_ALL_TIME
from penstock.operators.synopses.distinct import BITS, TimedBitmaps, places
from penstock.operators.synopses.hashing import mixed
from penstock.types import Type

_BIT = np.dtype([("time", np.int64), ("place", np.int32)])
_SURER = 1.5
"""The synopsis states two standard errors; SQL's bound is three."""


class ApproxDistinct(Approximate):
    """How many distinct values there are, within `epsilon` with a probability of 99.7 %.

    A bit counts while the time of its last setting is inside. So cells of any width answer for any BEGIN, and all but the
    newest cells of a group become one.
    """

    name = "approx_distinct"
    functions = frozenset({"approx_distinct", "approx_distinct_error"})
    bytes_fields = frozenset({"bits"})
    brackets_cut = False

    def __init__(self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness) -> None:
        super().__init__(types, epsilon, coarseness)
        self.maps = self._bitmaps().maps

    def _bitmaps(self) -> TimedBitmaps:
        return TimedBitmaps(epsilon=self.epsilon / _SURER)

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function in cls.functions and len(types) == 1 and types[0].kind not in ("ARRAY", "STRUCT")

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
                whole = self._bitmaps()
                width = int((bits["place"] % BITS).max()) + 1
                whole.times = np.full((whole.maps, width), BEFORE_ALL_TIME, np.int64)
                whole.times[bits["place"] // BITS, bits["place"] % BITS] = bits["time"]
                answer = whole.answer()
                values[i], slacks[i] = np.round(answer.value), _SURER * answer.error
        return Brackets(values, values - slacks, values + slacks, np.ones(len(values), np.bool_))

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        found = self.brackets(state)
        if function.endswith("_error"):
            return pa.array(found.errors)
        return pa.array(found.values.astype(np.int64)).cast(type_.to_arrow())


def hashes_of(values: pa.Array) -> Numbers:
    """A number per value that looks random; equal values have equal ones."""
    numbers, _ = key_numbers([values])
    hashes: Numbers = mixed(numbers).view(np.int64)
    return hashes
