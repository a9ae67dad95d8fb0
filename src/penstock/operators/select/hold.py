"""`WHERE ... FOR 30 SECONDS`: finds the rows up to which the condition has lasted, from the rows that match it.

A row is in if its condition is true at it and at all rows of its sensor back to one that is old enough: so all rows since
the window's beginning, less that time, are looked at, and of each sensor the newest one before (its eve). A row changes
nothing for rows that are older than itself. So what was found for one cycle is kept, and the next one looks again only
from its oldest new reading on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.expr.evaluate import evaluate_mask
from penstock.expr.expression import columns_of
from penstock.expr.windows import FOREVER
from penstock.operators.base.blocks import Blocks
from penstock.operators.base.log_reader import LogReader, TimedPositions, no_rows
from penstock.operators.select.hold_cache import Eves, HoldCache, HoldRows
from penstock.operators.select.hold_runs import Bools, Ints, lasting, newest_of_each
from penstock.operators.select.match_positions import MatchPositions
from penstock.sql.plan import SelectPlan
from penstock.views.query_state import NEVER

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
