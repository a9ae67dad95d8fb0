"""complete_from: the time from which an answer has all rows, where that is later than the beginning of its window.

An answer is incomplete where retention deleted readings, or where a sensor was not open yet. On a transaction-time
table a sensor is complete from its opening on. On a valid-time table the time of the opening is unrelated to the
times of the data: there a sensor is complete from its first reading after the opening on, and a sensor without
readings since then is not considered.

First readings are found in the log by the arrival times that rows of valid-time tables carry, and remembered: each row is
looked at once, no matter how many clients ask.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import ARRIVAL_COLUMN, TIME_COLUMN, VERSION_COLUMN, Table
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError
from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.join.readers import told_from
from penstock.operators.sparksql.moments import streams_of
from penstock.sql.plan import Plan, all_windows
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, Slice, list_readable, slices
from penstock.streams.sources.manager import surviving
from penstock.views.results import Result
from penstock.views.standing_queries import StandingQueries


class Completeness:
    """Computes complete_from of answers."""

    def __init__(self, standing: StandingQueries) -> None:
        self._standing = standing
        self._first_readings = FirstReadings(standing.folder.log)

    def say(self, result: Result, plan: Plan, start_us: int | None, state: CatalogState) -> Result:
        """The result with complete_from, where that lies inside the window."""
        spans = [w for w in all_windows(plan) if isinstance(w, TimeWindow)]
        if not spans or result.now_us is None:
            return result
        rolled_up = result.rolled_up
        kept_us = self._kept_from(plan) if rolled_up is None else rolled_up.kept_from_us
        if start_us is None and any(w.begin.anchor == "start" for w in spans):
            # It came before the first reading, so all there ever was is asked for: only retention can have cut that.
            return replace(result, complete_from_us=kept_us) if (kept_us or -FOREVER) > -FOREVER else result
        start = start_us if start_us is not None else result.now_us
        begin = min(w.resolve(result.now_us, start)[0] for w in spans)
        if begin <= -FOREVER:
            return result  # all that is kept was asked for, and that is what there is
        rolled = rolled_up is not None and bool(rolled_up.notices)
        known = [kept_us, *(self._observed_from(t, p, state, rolled) for t, p in _streams(plan, state))]
        known.append(told_from(plan, start_us, state))
        latest = max((t for t in known if t is not None), default=begin)
        return replace(result, complete_from_us=latest) if latest > begin else result

    def forget(self, table_id: int) -> None:
        """The table was dropped."""
        self._first_readings.forget(table_id)

    def _kept_from(self, plan: Plan) -> int | None:
        """Since when nothing that the plan reads has been thrown away; None where nothing ever was."""
        kept: list[int] = []
        with self._standing.locked() as store:
            latch = plan.aggregation if plan.latch is not None else None
            if latch is not None:  # or it was dropped
                return store.slices.latch_of(latch).kept_from_us if store.slices.keeps(latch) else None
            for table, _ in _streams(plan, store.state):
                if table.options.retention_us is None or not store.state.retention(table.id):
                    continue
                # A row goes when it is older than this at the table's own NOW, whatever the query's NOW is.
                now_us = store.now_of(table, None)
                if now_us is not None:
                    kept.append(now_us - table.options.retention_us)
        return max(kept, default=None)

    def _observed_from(self, table: Table, predicate: Expr | None, state: CatalogState, rolled: bool) -> int | None:
        """Since when every sensor that passes has been observed without a break, in the table's own time.

        Where a rollup has what the log has no more (`rolled`), it has the first readings of sensors that are as old, too.
        """
        seen = state.observations(table.id)
        newest = {s: seen[s][-1] for s in surviving(predicate, state.rows(table.id)).tolist() if seen.get(s)}
        opened = {sid: began_us for sid, (began_us, ended_us) in newest.items() if ended_us is None}
        if table.options.time == "transaction":
            return max(opened.values(), default=None)
        begins_us = self._first_readings.begins(table.id) if rolled else None
        if begins_us is not None:
            opened = {sid: us for sid, us in opened.items() if us > begins_us}
        return self._first_readings.latest(table.id, opened, state.rows(table.id).sids)


def _streams(plan: Plan, state: CatalogState) -> list[tuple[Table, Expr | None]]:
    found = streams_of(plan, state)
    return [(state.tables_by_id[table_id], p) for table_id, p in found if table_id in state.tables_by_id]


ROWS_A_LOOK = 1_000_000
UNKNOWN = -(2**62)
Ints = np.ndarray[Any, np.dtype[np.int64]]


class _Known:
    """What is known of one table, by sid: the opening, the first reading after it, and how far the log was searched."""

    def __init__(self) -> None:
        self.opened = self.times = self.searched = np.empty(0, np.int64)

    def set_openings(self, sids: Ints, opened_us: Ints) -> None:
        """What was known of an earlier opening is forgotten."""
        more = max(0, int(sids.max(initial=-1)) + 1 - len(self.opened))
        self.opened, self.times, self.searched = (
            np.concatenate([known, np.full(more, UNKNOWN)]) for known in (self.opened, self.times, self.searched)
        )
        changed = sids[self.opened[sids] != opened_us]
        self.times[changed] = self.searched[changed] = UNKNOWN
        self.opened[sids] = opened_us


class FirstReadings:
    """The first reading of each sensor after it was opened, found in the log and remembered."""

    def __init__(self, log_folder: Path) -> None:
        self._folder = log_folder
        self._tables: dict[int, _Known] = {}
        self._lock = threading.Lock()

    def latest(self, table_id: int, opened: Mapping[int, int], sid_of: np.ndarray[Any, Any]) -> int | None:
        """The latest of the first times of sensors, given when each was opened; None where none has sent anything.

        `sid_of` gives the sensor of each static version.
        """
        sids, opened_us = np.array(list(opened), np.int64), np.array(list(opened.values()), np.int64)
        with self._lock:
            known = self._tables.setdefault(table_id, _Known())
            known.set_openings(sids, opened_us)
            missing = sids[known.times[sids] == UNKNOWN]
            if len(missing):
                self._search(table_id, known, missing, sid_of)
            latest = int(known.times[sids].max(initial=UNKNOWN))
        return latest if latest > UNKNOWN else None

    def begins(self, table_id: int) -> int | None:
        """When the oldest row arrived that the log still has; None where it has all there ever were."""
        while True:
            first = next(iter(list_readable(self._folder, table_id)), None)
            if first is None or first.first == 0:
                return None
            try:
                row = read_slice(Slice(first.path, first.format, first.first, 0, 1), [ARRIVAL_COLUMN.name])
            except PenstockError:
                if first.path.exists():
                    raise
                continue  # retention took it just now: the next one is the oldest
            return int(_as_ints(row, ARRIVAL_COLUMN.name)[0])

    def forget(self, table_id: int) -> None:
        """The table was dropped."""
        with self._lock:
            self._tables.pop(table_id, None)

    def _search(self, table_id: int, known: _Known, missing: Ints, sid_of: np.ndarray[Any, Any]) -> None:
        segments = list_readable(self._folder, table_id)
        if not segments:
            return
        fresh = missing[known.searched[missing] == UNKNOWN]
        if len(fresh):
            known.searched[fresh] = _first_arriving(segments, int(known.opened[fresh].min()))
        position = int(known.searched[missing].min())
        for piece in slices(segments, position, position + ROWS_A_LOOK):
            _take(piece, known, missing, sid_of)
            position = piece.end
            missing = missing[known.times[missing] == UNKNOWN]
            if not len(missing):
                return
        known.searched[missing] = position


def _take(piece: Slice, known: _Known, missing: Ints, sid_of: np.ndarray[Any, Any]) -> None:
    """Note the first readings that this piece has of missing sensors."""
    rows = read_slice(piece, [VERSION_COLUMN.name, TIME_COLUMN, ARRIVAL_COLUMN.name])
    vids = rows.column(VERSION_COLUMN.name).to_numpy()
    opened_us = np.full(max(int(sid_of.max(initial=-1)), int(missing.max())) + 1, FOREVER)
    opened_us[missing] = known.opened[missing]
    # A static version newer than the caller's state belongs to a row that came after it asked.
    there = np.flatnonzero(vids < len(sid_of))
    sids = sid_of[vids[there]]
    after = _as_ints(rows, ARRIVAL_COLUMN.name)[there] >= opened_us[sids]
    found, first = np.unique(sids[after], return_index=True)
    known.times[found] = _as_ints(rows, TIME_COLUMN)[there[after][first]]


def _first_arriving(segments: list[Segment], at_us: int) -> int:
    """The position of the first file with a row that arrived at or after a moment: arrivals only grow."""

    def newest(segment: Segment) -> int:
        last = Slice(segment.path, segment.format, segment.end - 1, segment.rows - 1, 1)
        return int(_as_ints(read_slice(last, [ARRIVAL_COLUMN.name]), ARRIVAL_COLUMN.name)[0])

    return segments[bisect_left(segments, at_us, hi=len(segments) - 1, key=newest)].first


def _as_ints(rows: pa.Table, name: str) -> Ints:
    return np.asarray(rows.column(name).cast(pa.int64()), dtype=np.int64)
