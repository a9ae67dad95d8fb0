"""FIRST and LAST: the value of the earliest and of the latest row by (ts, log position), NULL where that row has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import ALL_KINDS, NUMBER_KINDS, Ints, Numbers, Partial, State, Values
from penstock.operators.aggregate.partials.objects import object_bytes, objects_of
from penstock.types import BOOLEAN, Type

_ENDS = {"first": -1, "last": 1}
_PARTS = ("ts", "position", "value", "known")
# A plain tuple: Numba looks up the type of a named one again at each call, which takes longer than a short call.
_Rows = tuple[Ints, Ints, Numbers, Ints]


class Ends(Partial):
    """Both ends of a cell. A row is known by its place in the log, so rows of the same time have an order, too.

    A second argument says which rows count at all (FILTER); it is never NULL.
    """

    name = "ends"
    functions = frozenset(_ENDS)
    kinds = NUMBER_KINDS
    keeps_nulls = True

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return super().takes(function, types[:1]) and types[1:] in ((), (BOOLEAN,))

    def fields(self) -> dict[str, tuple[Any, Any]]:
        value = np.int64 if self.whole else np.float64
        dtypes = {"ts": np.int64, "position": np.int64, "value": value, "known": np.int64}
        return {"count": (np.int64, 0), **{f"{end}_{part}": (dtypes[part], 0) for end in _ENDS for part in _PARTS}}

    def add(self, state: State, values: Values) -> None:
        values = counted(values)
        row = values.times, values.positions, values.numbers[0], values.valid.astype(np.int64)
        self._take(state, values.cells, np.ones(len(values.cells), np.int64), dict.fromkeys(_ENDS, row))

    def merge(self, state: State, at: Ints, other: State) -> None:
        self._take(state, at, other["count"], {end: self._rows(other, end) for end in _ENDS})

    def _take(self, state: State, at: Ints, counts: Ints, ends: dict[str, _Rows]) -> None:
        for end, rows in ends.items():
            self._take_end(state, end, at, counts, rows)
        np.add.at(state["count"], at, counts)

    def _take_end(self, state: State, end: str, at: Ints, counts: Ints, new: _Rows) -> None:
        take_ends(state["count"], at, counts, self._rows(state, end), new, _ENDS[end])

    def _rows(self, state: State, end: str) -> _Rows:
        return state[f"{end}_ts"], state[f"{end}_position"], state[f"{end}_value"], state[f"{end}_known"]

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        values, known = state[f"{function}_value"], state[f"{function}_known"]
        if type_.kind == "BOOLEAN":
            values = values.astype(np.bool_)
        none = (state["count"] == 0) | (known == 0)
        return pa.array(values, mask=none, from_pandas=False).cast(type_.to_arrow())


class ObjectEnds(Ends):
    """As `Ends`, for values that are no machine numbers: TEXT, DECIMAL, BINARY, arrays and structs; None for NULL."""

    name = "object_ends"
    kinds = ALL_KINDS - NUMBER_KINDS

    def fields(self) -> dict[str, tuple[Any, Any]]:
        parts: dict[str, tuple[Any, Any]] = {"ts": (np.int64, 0), "position": (np.int64, 0), "value": (object, None)}
        return {"count": (np.int64, 0), **{f"{end}_{part}": kind for end in _ENDS for part, kind in parts.items()}}

    def convert(self, values: pa.Array) -> Numbers:
        return objects_of(values)

    def _take_end(self, state: State, end: str, at: Ints, counts: Ints, new: _Rows) -> None:
        # The kernel knows no objects: it says for each cell which row has the new value, if any has.
        ts, position, values, _ = new
        places, chosen = np.arange(len(at)), np.full(len(state["count"]), -1)
        own = state[f"{end}_ts"], state[f"{end}_position"], chosen, np.empty_like(chosen)
        take_ends(state["count"], at, counts, own, (ts, position, places, places), _ENDS[end])
        changed = np.flatnonzero(chosen >= 0)
        state[f"{end}_value"][changed] = values[chosen[changed]]

    def _rows(self, state: State, end: str) -> _Rows:
        ts = state[f"{end}_ts"]
        return ts, state[f"{end}_position"], state[f"{end}_value"], ts  # an object says itself whether it is known

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        return pa.array(state[f"{function}_value"].tolist(), type_.to_arrow())

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name.endswith("_value"):
            return pa.array(field.tolist(), self.types[0].to_arrow())
        return super().to_arrow(name, field)

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        return objects_of(column) if name.endswith("_value") else super().from_arrow(name, column)

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + object_bytes(state["first_value"], state["last_value"])


def counted(values: Values) -> Values:
    """The rows that FILTER leaves, all where there is none."""
    return values if len(values.numbers) == 1 else values.take(np.flatnonzero(values.numbers[1].astype(np.bool_)))


@kernel
def take_ends(count: Ints, at: Ints, counts: Ints, own: _Rows, new: _Rows, sign: int) -> None:
    """Keep the row with the smallest (sign -1) or largest (1) time and position per cell."""
    ts, position, value, known = own
    new_ts, new_position, new_value, new_known = new
    fresh = count == 0
    for i in range(len(at)):
        c = at[i]
        if counts[i] == 0:
            continue
        later = sign * (new_ts[i] - ts[c])
        if fresh[c] or later > 0 or (later == 0 and sign * (new_position[i] - position[c]) > 0):
            ts[c], position[c] = new_ts[i], new_position[i]
            value[c], known[c] = new_value[i], new_known[i]
            fresh[c] = False
