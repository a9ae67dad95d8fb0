"""What a slot of a series keeps of readings that are not added up: the last one, or all symbols.

Slots are many and symbols are few. So equal symbols, and equal sets of them, are one object that slots share: a slot has 8 bytes for it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import (
    NUMBER_KINDS,
    Ints,
    Numbers,
    Partial,
    State,
    Values,
    parts_per_cell,
    per_cell,
)
from penstock.operators.aggregate.partials.ends import counted, take_ends
from penstock.operators.aggregate.partials.objects import shared_bytes
from penstock.types import BOOLEAN, Type

LAST, SETS = "slot_last", "slot_symbols"
_SYMBOLS = frozenset({"TEXT", "BOOLEAN", "INT", "BIGINT"})
_MOST_SHARED = 16
"""Sets of more symbols are hardly ever equal."""


@lru_cache(1 << 16)
def _shared(symbols: tuple[Any, ...]) -> tuple[Any, ...]:
    """The first one that was equal."""
    return symbols


def _set_of(symbols: set[Any]) -> tuple[Any, ...]:
    ordered = tuple(sorted(symbols))
    return _shared(ordered) if len(ordered) <= _MOST_SHARED else ordered


def _as_symbols(values: pa.Array) -> Numbers:
    """Texts as Python objects, equal ones as the same; None for NULL."""
    found = [None if value is None else sys.intern(value) for value in values.to_pylist()]
    return np.fromiter(found, object, len(found))


def slot_last_name(every_us: int) -> str:
    """The name of the partial of the last reading in slots of a width."""
    return f"{LAST} {every_us}"


class SlotLast(Partial):
    """The last reading by (ts, log position). Of its time a slot needs only how long it is after the slot began: mostly 4 bytes.

    A second argument says which rows count (as FILTER); it is never NULL.
    """

    name = LAST
    functions = frozenset({"last"})
    kinds = _SYMBOLS | {"DOUBLE"}

    def __init__(self, types: tuple[Type, ...], every_us: int) -> None:
        super().__init__(types)
        self.every_us = every_us

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return super().takes(function, types[:1]) and types[1:] in ((), (BOOLEAN,))

    @property
    def _objects(self) -> bool:
        return self.types[0].kind not in NUMBER_KINDS

    def fields(self) -> dict[str, tuple[Any, Any]]:
        number = (np.int64, 0) if self.whole else (np.float64, 0.0)
        value = (object, None) if self._objects else number
        return {"count": (np.int64, 0), "ts": (np.int64, 0), "position": (np.int64, 0), "value": value}

    def convert(self, values: pa.Array) -> Numbers:
        return _as_symbols(values) if pa.types.is_string(values.type) else super().convert(values)

    def add(self, state: State, values: Values) -> None:
        values = counted(values)
        ones = np.ones(len(values.cells), np.int64)
        self._take(state, values.cells, ones, (values.times % self.every_us, values.positions, values.numbers[0]))

    def merge(self, state: State, at: Ints, other: State) -> None:
        self._take(state, at, other["count"], (other["ts"], other["position"], other["value"]))

    def _take(self, state: State, at: Ints, counts: Ints, rows: tuple[Ints, Ints, Numbers]) -> None:
        # The kernel knows no objects: it says for each cell which row has the new value, if any has. Columns of tiles are in few bytes or of
        # a file, and for each kind of them it would be compiled again.
        times, positions, counts = (np.array(column, np.int64) for column in (*rows[:2], counts))
        values = rows[2]
        places, chosen = np.arange(len(at)), np.full(len(state["count"]), -1)
        own = state["ts"], state["position"], chosen, np.empty_like(chosen)
        take_ends(state["count"], at, counts, own, (times, positions, places, places), 1)
        changed = np.flatnonzero(chosen >= 0)
        state["value"][changed] = values[chosen[changed]]
        np.add.at(state["count"], at, counts)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        if self._objects:
            return pa.array(state["value"].tolist(), type_.to_arrow())
        values = state["value"].astype(np.bool_) if type_.kind == "BOOLEAN" else state["value"]
        return pa.array(values, mask=state["count"] == 0, from_pandas=False).cast(type_.to_arrow())

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if field.dtype == object:
            return pa.array(field.tolist(), self.types[0].to_arrow())
        return super().to_arrow(name, field)

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        return _as_symbols(column) if pa.types.is_string(column.type) else super().from_arrow(name, column)

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + (shared_bytes(state["value"]) if self._objects else 0)


class SlotSymbols(Partial):
    """All symbols of a slot, as a sorted tuple; `size` is how many. BOOLEAN as whole numbers."""

    name = SETS
    functions = frozenset({SETS})
    kinds = _SYMBOLS

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"size": (np.int64, 0), "values": (object, None)}

    def convert(self, values: pa.Array) -> Numbers:
        return _as_symbols(values) if pa.types.is_string(values.type) else super().convert(values)

    def add(self, state: State, values: Values) -> None:
        for cell, part in per_cell(values.cells, values.numbers[0]):
            self._keep(state, cell, [state["values"][cell] or (), part.tolist()])

    def merge(self, state: State, at: Ints, other: State) -> None:
        for cell, parts in parts_per_cell(state["values"], at, other["values"]):
            self._keep(state, cell, parts)

    def _keep(self, state: State, cell: int, parts: list[Any]) -> None:
        kept = parts[0] if len(parts) == 1 else _set_of(set().union(*parts))
        state["values"][cell], state["size"][cell] = kept, len(kept)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        raise AssertionError("mining functions see the symbols themselves")

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name != "values":
            return super().to_arrow(name, field)
        item = self.types[0].to_arrow() if self.types[0].kind == "TEXT" else pa.int64()
        return pa.array(field.tolist(), pa.large_list(item))

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        if name != "values":
            return super().from_arrow(name, column)
        found: Numbers = np.full(len(column), None, object)
        for place, part in enumerate(column.to_pylist()):
            if part is not None:
                found[place] = _set_of({sys.intern(each) if isinstance(each, str) else each for each in part})
        return found

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + shared_bytes(state["values"])

    def kept(self, state: State) -> int:
        return int(state["size"].sum())
