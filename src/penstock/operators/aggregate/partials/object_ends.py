"""FIRST and LAST of values that are no machine numbers: TEXT, DECIMAL, BINARY, arrays and structs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.operators.aggregate.partials.ends import counted
from penstock.operators.aggregate.partials.objects import KINDS, object_bytes, objects_of
from penstock.types import BOOLEAN, Type

_KINDS = KINDS | {"ARRAY", "STRUCT"}
_ENDS = ("first", "last")


class ObjectEnds(Partial):
    """Both ends of a cell by (ts, log position), None where that row has no value; as `Ends` otherwise."""

    name = "object_ends"
    functions = frozenset(_ENDS)
    keeps_nulls = True

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        if function not in cls.functions or not types:
            return False
        return types[0].kind in _KINDS and types[1:] in ((), (BOOLEAN,))

    def fields(self) -> dict[str, tuple[Any, Any]]:
        parts: dict[str, tuple[Any, Any]] = {"ts": (np.int64, 0), "position": (np.int64, 0), "value": (object, None)}
        return {"count": (np.int64, 0), **{f"{end}_{part}": kind for end in _ENDS for part, kind in parts.items()}}

    def convert(self, values: pa.Array) -> Numbers:
        return objects_of(values)

    def add(self, state: State, values: Values) -> None:
        values = counted(values)
        rows = {"ts": values.times, "position": values.positions, "value": values.numbers[0]}
        self._take(state, values.cells, np.ones(len(values.cells), np.int64), dict.fromkeys(_ENDS, rows))

    def merge(self, state: State, at: Ints, other: State) -> None:
        held = other["count"] > 0
        ends = {end: {part: other[f"{end}_{part}"][held] for part in ("ts", "position", "value")} for end in _ENDS}
        self._take(state, at[held], other["count"][held], ends)

    def _take(self, state: State, at: Ints, counts: Ints, ends: dict[str, State]) -> None:
        if not len(at):
            return
        empty = state["count"] == 0
        for end, rows in ends.items():
            order = np.lexsort((rows["position"], rows["ts"], at))
            edges = np.append(np.diff(at[order]) != 0, True)
            chosen = order[edges if end == "last" else np.append(True, edges[:-1])]
            cells = at[chosen]
            better = empty[cells] | _beyond(state, rows, chosen, cells, end)
            for part in ("ts", "position", "value"):
                state[f"{end}_{part}"][cells[better]] = rows[part][chosen[better]]
        np.add.at(state["count"], at, counts)

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


def _beyond(state: State, rows: State, chosen: Ints, cells: Ints, end: str) -> npt.NDArray[np.bool_]:
    """Which of the chosen rows come before the first, or after the last, row of their cell."""
    sign = 1 if end == "last" else -1
    later = sign * (rows["ts"][chosen] - state[f"{end}_ts"][cells])
    behind = sign * (rows["position"][chosen] - state[f"{end}_position"][cells])
    found: npt.NDArray[np.bool_] = (later > 0) | ((later == 0) & (behind > 0))
    return found
