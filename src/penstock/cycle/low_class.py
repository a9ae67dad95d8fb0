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
        for query in state.low_queries()
        if may_wait(query)
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


TARGET_S = 0.5
LEAST_SHARE = 0.1
FORGET = 0.7


class MeasuredPace:
    """Keeps cycles below half a second by what rows took in the last cycles; the class gets at least a tenth of that.

    The first cycle of a heavy query is not known beforehand, and lasts as long as it does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._new_s = self._low_s = 0.0  # seconds per row of other queries, and of the class
        self._began: tuple[float, int, int] | None = None

    def end_cycle(self) -> None:
        if self._began is None:
            return
        began_s, new, low = self._began
        took_s, self._began = self._clock() - began_s, None
        if low == 0 and new > 0:
            self._new_s = _averaged(self._new_s, took_s / new)
        elif low > 0:
            self._low_s = _averaged(self._low_s, max(0.0, took_s - self._new_s * new) / low)

    def begin_cycle(self, new: int, low: int) -> None:
        self._began = (self._clock(), new, low)

    def rows(self, new: int, low: int) -> int | None:
        rest_s = TARGET_S - self._new_s * new
        if self._low_s * low <= rest_s or self._low_s == 0.0:
            return None
        room = max(1, int(max(rest_s, LEAST_SHARE * TARGET_S) / self._low_s))
        return room if room < low else None


def _averaged(known: float, new: float) -> float:
    return new if known == 0.0 else FORGET * known + (1 - FORGET) * new


class CatchUp:
    """The pace of a cycle that takes all of the class along."""

    def __init__(self, pace: LowClassPace) -> None:
        self.begin_cycle, self.end_cycle = pace.begin_cycle, pace.end_cycle

    def rows(self, new: int, low: int) -> int | None:
        return None
