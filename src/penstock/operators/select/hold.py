"""`WHERE ... FOR 30 SECONDS`: finds the rows up to which the condition has lasted, from the rows that match it.

A row is in if its condition is true at it and at all rows of its sensor back to one that is old enough: so all rows since
the window's beginning, less that time, are looked at, and of each sensor the newest one before (its eve). A row changes
nothing for rows that are older than itself. So what was found for one cycle is kept, and the next one looks again only
from its oldest new reading on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.expr.evaluate import evaluate_mask
from penstock.expr.expression import columns_of
from penstock.expr.windows import FOREVER
from penstock.operators.base.blocks import Blocks
from penstock.operators.base.log_reader import LogReader, TimedPositions, no_rows
from penstock.operators.select.match_positions import MatchPositions
from penstock.sql.plan import SelectPlan
from penstock.views.query_state import NEVER

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def lasting(sids: npt.NDArray[np.int32], times: Ints, positions: Ints, true: Bools, us: int) -> Bools:
    """Which rows end a run of true rows of their sensor, in the order of time and position, that began `us` before."""
    if not len(times):
        return np.empty(0, np.bool_)
    order = np.lexsort((positions, times, sids))
    held, own, when = true[order], sids[order], times[order]
    begins = ~held
    begins[0] = True
    begins[1:] |= ~held[:-1] | (own[1:] != own[:-1])
    since = when[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    found = np.empty(len(order), np.bool_)
    found[order] = held & (when - since >= us)
    return found


def newest_of_each(sids: npt.NDArray[np.int32], times: Ints, positions: Ints) -> Ints:
    """The newest row of each sensor by time and position; indices, by sensor."""
    order = np.lexsort((positions, times, sids))
    return order[np.append(sids[order][1:] != sids[order][:-1], True)] if len(order) else order


KEPT = 4  # cycles that are asked about at the same time: of invocations, and of subscribers that are behind


@dataclass(frozen=True, slots=True)
class HoldRows:
    """All rows below `head` from a time on at which the condition has lasted; they depend on positions from `lowest` on."""

    since: int
    head: int
    lowest: int
    rows: TimedPositions


@dataclass(frozen=True, slots=True)
class Eves:
    """Each sensor's newest row up to a time, below `head`, by sid: when (NEVER: none), where, and whether it is true."""

    since: int
    head: int
    times: Ints
    positions: Ints
    true: Bools

    @property
    def lowest(self) -> int:
        return int(self.positions.min(initial=FOREVER))


Kept = TypeVar("Kept", HoldRows, Eves)


@dataclass(slots=True)
class HoldCache:
    """The cached results of one query. Soft state: missing results are read from the log."""

    found: list[HoldRows] = field(default_factory=list)
    eves: list[Eves] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def nearest(self, kept: Sequence[Kept], since: int, head: int, floor: int) -> Kept | None:
        """What needs the least added; nothing that stands on rows which retention has taken."""
        with self.lock:
            usable = [k for k in kept if k.since <= since and k.head <= head and k.lowest >= floor]
        return max(usable, key=lambda k: (k.head, k.since), default=None)

    def keep(self, kept: list[Kept], new: Kept) -> None:
        with self.lock:
            kept[:] = [k for k in kept if (k.since, k.head) != (new.since, new.head)]
            kept.append(new)
            del kept[:-KEPT]

    def clear(self) -> None:
        with self.lock:
            self.found.clear()
            self.eves.clear()

    @property
    def nbytes(self) -> int:
        with self.lock:
            rows = sum(f.rows.nbytes for f in self.found)
            return rows + sum(e.times.nbytes + e.positions.nbytes + e.true.nbytes for e in self.eves)


KEPT_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class HoldPositions:
    """The rows of a query with FOR, read like `MatchPositions`: as of any head, since late rows may change older answers.

    `true` are the rows at which the condition is true; `passing` says which static versions the query is about, and
    `heard` names the sensors that have readings at all.
    """

    plan: SelectPlan
    true: Blocks | MatchPositions
    passing: Bools | None
    heard: np.ndarray
    sids: np.ndarray
    floor: int
    memory: HoldCache

    def times(self, log_reader: LogReader, end: int, low: int, high: int, first: int) -> TimedPositions:
        """Rows in [first, end) with ts in [low, high], in log order."""
        known = self.memory.nearest(self.memory.found, low, end, self.floor)
        kept, since, lowest = no_rows(), low, FOREVER
        if known is not None:
            changed = int(self._rows(log_reader, end, -FOREVER, FOREVER, known.head).times.min(initial=FOREVER))
            kept = known.rows.take(np.flatnonzero((known.rows.times >= low) & (known.rows.times < changed)))
            since, lowest = max(low, changed), known.lowest
        fresh, reached = self._lasting(log_reader, end, since) if since < FOREVER else (no_rows(), FOREVER)
        rows = TimedPositions.together([kept, fresh])
        if known is None or (known.since, known.head) != (low, end):
            rows = rows.take(np.argsort(rows.positions))
            if len(rows.positions) <= KEPT_ROWS:
                self.memory.keep(self.memory.found, HoldRows(low, end, min(lowest, reached), rows))
        return rows.take(np.flatnonzero((rows.times <= high) & (rows.positions >= first)))

    def _rows(self, log_reader: LogReader, end: int, low: int, high: int, first: int) -> TimedPositions:
        """All rows of the query's sensors, whether the condition is true or not."""
        first = max(first, self.floor)
        rows = log_reader.times(None, end, low, high, first) if first < end else no_rows()
        return rows if self.passing is None else rows.take(np.flatnonzero(self.passing[rows.vids]))

    def _lasting(self, log_reader: LogReader, end: int, since: int) -> tuple[TimedPositions, int]:
        """The rows from a time on, and the lowest log position that they depend on."""
        assert self.plan.lasting is not None
        us, beside = self.plan.lasting.us, self.plan.lasting.beside
        begin = max(since - us, -FOREVER)
        rows = self._rows(log_reader, end, begin + 1, FOREVER, self.floor)
        if not len(rows.positions):
            return rows, FOREVER
        true = self._true(log_reader, end, begin + 1).positions
        eves, sids = self._eves(log_reader, end, begin), self.sids[rows.vids]
        ahead = np.unique(sids)
        ahead = ahead[eves.times[ahead] > NEVER]
        held = lasting(
            np.concatenate([ahead, sids]),
            np.concatenate([eves.times[ahead], rows.times]),
            np.concatenate([eves.positions[ahead], rows.positions]),
            np.concatenate([eves.true[ahead], np.isin(rows.positions, true, assume_unique=True)]),
            us,
        )[len(ahead) :]
        found = rows.take(np.flatnonzero(held & (rows.times >= since)))
        if beside is not None and len(found.positions):
            columns = log_reader.columns(columns_of(beside), found.positions)
            found = found.take(np.flatnonzero(evaluate_mask(beside, columns, len(found.positions))))
        return found, min(int(rows.positions.min()), int(eves.positions[ahead].min(initial=FOREVER)))

    def _true(self, log_reader: LogReader, end: int, low: int) -> TimedPositions:
        if isinstance(self.true, MatchPositions):
            return self.true.times(log_reader, end, low, FOREVER, self.floor)
        return log_reader.times(self.true, end, low, FOREVER, self.floor)

    def _eves(self, log_reader: LogReader, end: int, upto: int) -> Eves:
        known = self.memory.nearest(self.memory.eves, upto, end, self.floor)
        if known is not None and (known.since, known.head) == (upto, end):
            return known
        size = int(self.sids.max(initial=-1)) + 1
        times, positions, true = np.full(size, NEVER), np.full(size, FOREVER), np.zeros(size, np.bool_)
        if known is None:
            changed = self._search_back(log_reader, end, upto, times, positions)
        else:
            times[: len(known.times)], positions[: len(known.times)] = known.times, known.positions
            true[: len(known.true)] = known.true
            since = self._rows(log_reader, known.head, known.since + 1, upto, self.floor)
            late = self._rows(log_reader, end, -FOREVER, upto, known.head)
            changed = self._take_newer(TimedPositions.together([since, late]), times, positions)
        if len(changed):
            order = changed[np.argsort(positions[changed])]
            condition = self.plan.stream_predicate
            assert condition is not None
            columns = log_reader.columns(columns_of(condition), positions[order])
            true[order] = evaluate_mask(condition, columns, len(order))
        eves = Eves(upto, end, times, positions, true)
        self.memory.keep(self.memory.eves, eves)
        return eves

    def _search_back(self, log_reader: LogReader, end: int, upto: int, times: Ints, positions: Ints) -> Ints:
        """From the newest file backwards, until no older one can hold a newer row of any sensor."""
        files = sorted(
            (f for f in log_reader.segments() if f.min_ts <= upto and f.first < end), key=lambda f: -f.max_ts
        )
        for file in files:
            if file.max_ts < int(times[self.heard].min(initial=FOREVER)):
                break
            rows = self._rows(log_reader, min(end, file.end), -FOREVER, upto, file.first)
            self._take_newer(rows, times, positions)
        return np.flatnonzero(times > NEVER)

    def _take_newer(self, rows: TimedPositions, times: Ints, positions: Ints) -> Ints:
        """Put rows in that are newer than the present ones; returns the sensors with a new row."""
        sids = self.sids[rows.vids]
        last = newest_of_each(sids, rows.times, rows.positions)
        sids, when, where = sids[last], rows.times[last], rows.positions[last]
        newer = (when > times[sids]) | ((when == times[sids]) & (where > positions[sids]))
        times[sids[newer]], positions[sids[newer]] = when[newer], where[newer]
        changed: Ints = sids[newer].astype(np.int64)
        return changed
