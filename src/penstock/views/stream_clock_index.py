"""An index of NOW of every distinct valid-time stream that selections read, updated for all of them at once.

A stream is a table and a static predicate. Ten thousand of them are ten thousand rows of bits over the static versions.
A cycle checks only versions with a new newest time; a new predicate is checked against all versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.catalog.state import CatalogState
from penstock.expr.bits import pack
from penstock.expr.expression import Expr
from penstock.expr.newest_times import newest_passing
from penstock.expr.predicate_index import StaticMasks
from penstock.views.query_state import NEVER

NowKey: TypeAlias = tuple[int, Expr | None]
Times: TypeAlias = npt.NDArray[np.int64]
_NOT_YET = 2**62


@dataclass(slots=True)
class _Table:
    """One table's predicates. Place 0 is for all sensors, place n + 1 for mask n."""

    masks: StaticMasks = field(default_factory=StaticMasks)
    uses: Counter[Expr | None] = field(default_factory=Counter)
    places: dict[Expr | None, int] = field(default_factory=dict)
    sharing: Counter[int] = field(default_factory=Counter)  # how many predicates of equal meaning have a place
    new: set[int] = field(default_factory=set)
    nows: Times = field(default_factory=lambda: np.full(8, NEVER))  # replaced, never changed: older cycles have it, too
    known_from: Times = field(default_factory=lambda: np.full(8, _NOT_YET))  # the first cycle that has a place's NOW
    moved: list[Times] = field(default_factory=list)  # versions with readings since the last cycle

    def add(self, predicate: Expr | None) -> None:
        self.uses[predicate] += 1
        if self.uses[predicate] > 1:
            return
        place = self.places[predicate] = self.masks.acquire(predicate) + 1
        if place >= len(self.nows):
            self.nows = np.concatenate([self.nows, np.full(place, NEVER)])
            self.known_from = np.concatenate([self.known_from, np.full(place, _NOT_YET)])
        self.sharing[place] += 1
        if self.sharing[place] == 1:
            self.new.add(place)

    def remove(self, predicate: Expr | None) -> None:
        self.uses[predicate] -= 1
        if self.uses[predicate]:
            return
        place = self.places.pop(predicate)
        del self.uses[predicate]
        self.masks.release(place - 1)
        self.sharing[place] -= 1
        if not self.sharing[place]:
            del self.sharing[place]
            self.known_from[place] = _NOT_YET
            self.new.discard(place)


@dataclass(frozen=True, slots=True)
class StreamClocksAt:
    """The NOWs of one cycle."""

    tables: Mapping[int, _Table]
    cycle: int
    nows: dict[int, Times]

    def get(self, key: NowKey) -> int | None:
        """NOW of a stream; None where it had no readings, or no query read it then."""
        table, then = self.tables.get(key[0]), self.nows.get(key[0])
        place = table.places.get(key[1]) if table is not None else None
        if table is None or then is None or place is None or table.known_from[place] > self.cycle:
            return None
        return int(then[place]) if then[place] > NEVER else None


class StreamClockIndex:
    """Counts the queries that read each stream. Changed by the follower, under its owner's lock."""

    def __init__(self) -> None:
        self._tables: dict[int, _Table] = {}

    def add(self, key: NowKey) -> None:
        if key[0] not in self._tables:
            self._tables[key[0]] = _Table()
        self._tables[key[0]].add(key[1])

    def remove(self, key: NowKey) -> None:
        self._tables[key[0]].remove(key[1])
        if not self._tables[key[0]].uses:
            del self._tables[key[0]]

    def heard(self, table_id: int, vids: Times) -> None:
        """Some versions have a newer reading."""
        if table_id in self._tables:
            self._tables[table_id].moved.append(vids)

    def at(self, cycle: int, state: CatalogState, newest: Mapping[int, Times]) -> StreamClocksAt:
        """NOW of all streams once a cycle has brought what it brings."""
        for table_id, table in self._tables.items():
            times = newest.get(table_id)
            if times is not None and (table.moved or table.new):
                _move_on(table, state, table_id, times)
            for place in table.new:
                table.known_from[place] = cycle
            table.new.clear()
            table.moved.clear()
        return StreamClocksAt(self._tables, cycle, {table_id: table.nows for table_id, table in self._tables.items()})


def _move_on(table: _Table, state: CatalogState, table_id: int, newest: Times) -> None:
    nows = table.nows.copy()
    places = np.array(sorted(table.sharing.keys() - {0}), np.int64)
    is_new = np.isin(places, np.array(sorted(table.new), np.int64))
    nows[places[is_new]] = NEVER
    nows[0] = newest.max(initial=NEVER)
    if len(places):
        bits = table.masks.masks(state.rows(table_id).versions())
        moved = np.zeros(len(newest), np.bool_)
        for vids in table.moved:
            moved[vids] = True
        for chosen, heard in ((places[~is_new], moved), (places[is_new], newest > NEVER)):
            newest_passing(bits, chosen - 1, pack(heard), newest, nows[1:])
    table.nows = nows
