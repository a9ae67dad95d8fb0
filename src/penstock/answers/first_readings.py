"""The first reading of a sensor after it was opened: where its data begins, in its own time.

Found in the log by the arrival times that rows of valid-time tables carry, and remembered: each row is looked at
once, no matter how many clients ask.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import ARRIVAL_COLUMN, TIME_COLUMN, VERSION_COLUMN
from penstock.errors import PenstockError
from penstock.expr.windows import FOREVER
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, Slice, list_readable, slices

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
    """Finds first readings in the log and remembers them."""

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
    low, high = 0, len(segments) - 1
    while low < high:
        middle = (low + high) // 2
        segment = segments[middle]
        newest = Slice(segment.path, segment.format, segment.end - 1, segment.rows - 1, 1)
        row = read_slice(newest, [ARRIVAL_COLUMN.name])
        if _as_ints(row, ARRIVAL_COLUMN.name)[0] < at_us:
            low = middle + 1
        else:
            high = middle
    return segments[low].first


def _as_ints(rows: pa.Table, name: str) -> Ints:
    return np.asarray(rows.column(name).cast(pa.int64()), dtype=np.int64)
