"""Which queries may stand behind the cycles, when they have to catch up, and how many rows they may read meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from penstock.catalog.definition_json import changed_by_run_plan
from penstock.catalog.model import Entry
from penstock.catalog.state import CatalogState
from penstock.cycle.late import Late, advance_late, waiting_rows
from penstock.cycle.offset import Offset
from penstock.operators.select.durability import may_wait

_NOT_DEFINING = {"insert_rows", "update_rows", "delete_rows", "observe", "retain", "close_rollup", "lost"}


def waiting_queries(state: CatalogState) -> dict[int, frozenset[int]]:
    """The queries that may stand behind, with the tables that they read."""
    return {
        query.id: frozenset(state.tables[name].id for name in query.reads_tables if name in state.tables)
        for query in map(state.queries_by_id.__getitem__, state.deferrable())
        if may_wait(state, query)
    }


def first_definition(entries: Sequence[Entry], waiting: Collection[int]) -> int | None:
    """The place of the first definition. A run plan is one if it is about queries that may stand behind.

    A cycle takes in no definition while queries stand behind: the cycle before takes them along. Nor does one that takes in a
    definition leave any behind.
    """
    for place, entry in enumerate(entries):
        if entry.kind == "run_plan":
            if not changed_by_run_plan(entry).keys().isdisjoint(waiting):
                return place
        elif entry.kind not in _NOT_DEFINING:
            return place
    return None


def late_after(start: Offset, end: Offset, state: CatalogState, pace: LowClassPace, most_cycles: int) -> Late | None:
    """Where the class stands after the cycle from one offset to the other, at the pace that is given; None: not behind.

    `state` stands at the end's journal position. A class that is `most_cycles` behind takes part in full.
    """
    late, waiting = start.late, waiting_queries(state)
    tables = frozenset().union(*waiting.values())
    known = {table: start.data.get(table, 0) for table in tables if table in end.data}
    low = sum(end.data[t] - p for t, p in known.items()) + waiting_rows(known, late)
    new = sum(e - start.data.get(t, 0) for t, e in end.data.items())
    may_lag = low > 0 and (late is None or late.behind < most_cycles)
    rows = pace.rows(new, low) if may_lag else None
    after = advance_late(known, late, rows)
    pace.begin_cycle(new, low if after is None else low - waiting_rows(known, after) - sum_new(known, end))
    return after


def sum_new(known: dict[int, int], end: Offset) -> int:
    """The rows that are new to these tables in a cycle."""
    return sum(end.data[t] - p for t, p in known.items())


class LowClassPace(Protocol):
    """Decides how many rows the class low may read in a cycle."""

    def rows(self, new: int, low: int) -> int | None:
        """`new`: rows that come; `low`: rows that the class would have to read. None: all of them, with the cycle."""

    def begin_cycle(self, new: int, low: int) -> None:
        """A cycle is planned in which the class reads so many rows."""

    def end_cycle(self) -> None:
        """The cycle that was planned last is through."""


TARGET_S = 0.4
LEAST_SHARE = 0.1
FORGET = 0.7
"""What is left of a cycle's figures after the next one."""
GROWTH = 1.02
"""The shortest cycle is forgotten by this factor a cycle."""


class _RowCost:
    """Seconds per row, by sums that forget a part with every cycle."""

    def __init__(self) -> None:
        self._seconds = self._rows = 0.0

    def note(self, seconds: float, rows: int) -> None:
        if rows > 0:
            self._seconds = FORGET * self._seconds + max(0.0, seconds)
            self._rows = FORGET * self._rows + rows

    def of(self, rows: int) -> float:
        return rows * self._seconds / self._rows if self._rows else 0.0


class MeasuredPace:
    """Keeps cycles below 0.4 s by what rows took in the last cycles; the class gets at least a tenth of that.

    A cycle takes the time of the shortest one lately in which the class read nothing, and time for each row. The first cycle of a
    heavy query is not known beforehand, and lasts as long as it does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._base_s: float | None = None
        self._new, self._low = _RowCost(), _RowCost()  # what others take, and what the class takes beside that
        self._began: tuple[float, int, int] | None = None

    def end_cycle(self) -> None:
        if self._began is None:
            return
        began_s, new, low = self._began
        took_s, self._began = self._clock() - began_s, None
        if low > 0:
            self._low.note(took_s - (self._base_s or 0.0) - self._new.of(new), low)
            return
        self._base_s = took_s if self._base_s is None else min(self._base_s * GROWTH, took_s)
        self._new.note(took_s - self._base_s, new)

    def begin_cycle(self, new: int, low: int) -> None:
        self._began = (self._clock(), new, low)

    def rows(self, new: int, low: int) -> int | None:
        room_s, needed_s = TARGET_S - (self._base_s or 0.0) - self._new.of(new), self._low.of(low)
        if needed_s <= room_s:
            return None
        least = LEAST_SHARE * TARGET_S / needed_s if needed_s else 1.0
        # Where there is no room at all, the class waits now and then, however cheap it seems: so what the others take is known.
        share = max(room_s / needed_s, least) if room_s > 0 else min(least, 0.5)
        return max(1, int(low * share)) if share < 1 else None


class CatchUp:
    """The pace of a cycle that takes all of the class along."""

    def __init__(self, pace: LowClassPace) -> None:
        self.begin_cycle, self.end_cycle = pace.begin_cycle, pace.end_cycle

    def rows(self, new: int, low: int) -> int | None:
        return None
