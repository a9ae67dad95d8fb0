"""FIRST and LAST: the value of the earliest and of the latest row by (ts, log position), NULL where that row has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.types import BOOLEAN, Type

_KINDS = frozenset({"INT", "BIGINT", "DOUBLE", "TIMESTAMP", "BOOLEAN"})
_PARTS = ("ts", "position", "value", "known")
# A plain tuple: Numba looks up the type of a named one again at each call, which takes longer than a short call.
_Rows = tuple[Ints, Ints, Numbers, Ints]


class Ends(Partial):
    """Both ends of a cell. A row is known by its place in the log, so rows of the same time have an order, too.

    A second argument says which rows count at all (FILTER); it is never NULL.
    """

    name = "ends"
    functions = frozenset({"first", "last"})
    keeps_nulls = True

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function in cls.functions and types[0].kind in _KINDS and types[1:] in ((), (BOOLEAN,))

    def fields(self) -> dict[str, tuple[Any, Any]]:
        value = np.int64 if self.whole else np.float64
        dtypes = {"ts": np.int64, "position": np.int64, "value": value, "known": np.int64}
        ends = {f"{end}_{part}": (dtypes[part], 0) for end in ("first", "last") for part in _PARTS}
        return {"count": (np.int64, 0), **ends}

    def add(self, state: State, values: Values) -> None:
        values = counted(values)
        ones = np.ones(len(values.cells), np.int64)
        row = values.times, values.positions, values.numbers[0], values.valid.astype(np.int64)
        self._take(state, values.cells, ones, row, row)

    def merge(self, state: State, at: Ints, other: State) -> None:
        self._take(state, at, other["count"], _rows_of(other, "first"), _rows_of(other, "last"))

    def _take(self, state: State, at: Ints, counts: Ints, first: _Rows, last: _Rows) -> None:
        for own, new, sign in ((_rows_of(state, "first"), first, -1), (_rows_of(state, "last"), last, 1)):
            take_ends(state["count"], at, counts, own, new, sign)
        np.add.at(state["count"], at, counts)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        values, known = state[f"{function}_value"], state[f"{function}_known"]
        if type_.kind == "BOOLEAN":
            values = values.astype(np.bool_)
        none = (state["count"] == 0) | (known == 0)
        return pa.array(values, mask=none, from_pandas=False).cast(type_.to_arrow())


def counted(values: Values) -> Values:
    """The rows that FILTER leaves, all where there is none."""
    if len(values.numbers) == 1:
        return values
    chosen = np.flatnonzero(values.numbers[1].astype(np.bool_))
    numbers = (values.numbers[0][chosen],)
    return Values(values.cells[chosen], numbers, values.times[chosen], values.positions[chosen], values.valid[chosen])


def _rows_of(state: State, end: str) -> _Rows:
    return state[f"{end}_ts"], state[f"{end}_position"], state[f"{end}_value"], state[f"{end}_known"]


@kernel
def take_ends(
    count: Ints,
    at: Ints,
    counts: Ints,
    own: _Rows,
    new: _Rows,
    sign: int,
) -> None:
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
