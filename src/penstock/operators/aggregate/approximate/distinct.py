"""APPROX_DISTINCT: timed Flajolet-Martin bitmaps, kept as a list of the set bits with the last time of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.aggregate.approximate.base import Approximate, Brackets, Coarseness, Floats
from penstock.operators.aggregate.approximate.bitmaps import BITS, distinct_count, map_count, places
from penstock.operators.aggregate.approximate.hashes import hashes_of
from penstock.operators.aggregate.partials.base import Ints, Numbers, State, Values
from penstock.types import Type

_BIT = np.dtype([("time", np.int64), ("place", np.int32)])
_SURER = 1.5
"""The bounds of `distinct_count` are two standard errors; SQL's are three."""


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
        self.maps = map_count(epsilon / _SURER)

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
                rows, columns = np.divmod(bits["place"], BITS)
                inside = np.zeros((self.maps, int(columns.max()) + 1), np.bool_)
                inside[rows, columns] = True
                count = distinct_count(inside)
                values[i], slacks[i] = np.round(count.value), _SURER * count.error
        return Brackets(values, values - slacks, values + slacks, np.ones(len(values), np.bool_))

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        found = self.brackets(state)
        if function.endswith("_error"):
            return pa.array(found.errors)
        return pa.array(found.values.astype(np.int64)).cast(type_.to_arrow())
