"""The newest reading of each sensor and its last two minutes, read from the log's newest rows on request.

Nothing is updated between requests. A request reads the rows since the last one, at most `ROWS_A_LOOK` of them, so a
busy table costs as much as a quiet one. If the limit leaves out all readings of a sensor, its older value stays.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, VERSION_COLUMN, Table
from penstock.clock import SECOND
from penstock.errors import PenstockError
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_readable, slices

ROWS_A_LOOK = 20_000
TRAIL_S = 120
FIELDS = 8
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Recent:
    """The newest readings of one table: by sid the newest values, and the last number in each second of two minutes."""

    seen: int = 0
    newest_us: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    values: dict[int, dict[str, Any]] = field(default_factory=dict)
    trail: dict[str, dict[int, Floats]] = field(default_factory=dict)

    def line(self, name: str, sid: int) -> list[tuple[int, float]]:
        """A sensor's (second, value) of one field, oldest first."""
        found = self.trail.get(name, {})
        return [
            (second, float(row[sid]))
            for second, row in sorted(found.items())
            if sid < len(row) and not np.isnan(row[sid])
        ]


class Latest:
    """The newest readings of all tables, one object per server. One thread at a time reads."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._tables: dict[int, Recent] = {}

    def look(self, table: Table, sids: npt.NDArray[Any], head: int) -> Recent:
        """What is known of a table by now. `sids` is the sensor of each version of a static row."""
        with self._lock:
            known = self._tables.setdefault(table.id, Recent())
            first = max(known.seen, head - ROWS_A_LOOK)
            if first < head:
                self._read(known, table, sids, first, head)
                known.seen = head
            return known

    def forget(self, tables: Mapping[int, Table]) -> None:
        """Forget dropped tables."""
        with self._lock:
            for table_id in self._tables.keys() - tables.keys():
                del self._tables[table_id]

    def _read(self, known: Recent, table: Table, sids: npt.NDArray[Any], first: int, head: int) -> None:
        assert table.stream is not None
        fields = [f.name for f in table.stream.fields][:FIELDS]
        columns = [VERSION_COLUMN.name, TIME_COLUMN, *fields]
        for piece in slices(list_readable(self._log, table.id), first, head):
            try:
                rows = read_slice(piece, columns)
            except (OSError, pa.ArrowException, PenstockError):
                continue  # compaction or retention removed it, or it is damaged, which queries report
            if rows.num_rows:
                self._take(known, rows, sids, fields)

    def _take(self, known: Recent, rows: pa.Table, sids: npt.NDArray[Any], fields: list[str]) -> None:
        vids = rows.column(VERSION_COLUMN.name).to_numpy().astype(np.int64)
        inside = vids < len(sids)  # a version that our state does not have yet: the next look has it
        if not inside.all():
            rows, vids = rows.filter(pa.array(inside)), vids[inside]
        if not len(vids):
            return
        sid = np.asarray(sids)[vids].astype(np.int64)
        times = rows.column(TIME_COLUMN).cast(pa.int64()).to_numpy()
        count = int(np.max(sids)) + 1
        more = np.full(max(0, count - len(known.newest_us)), np.iinfo(np.int64).min)
        known.newest_us = np.append(known.newest_us, more)
        self._take_newest(known, rows, sid, times, fields)
        self._take_trail(known, rows, sid, times, fields, count)

    def _take_newest(self, known: Recent, rows: pa.Table, sid: Ints, times: Ints, fields: list[str]) -> None:
        order = np.lexsort((np.arange(len(sid)), times, sid))
        last = order[np.flatnonzero(np.append(np.diff(sid[order]) != 0, True))]
        newer = last[times[last] >= known.newest_us[sid[last]]]
        known.newest_us[sid[newer]] = times[newer]
        picked = rows.take(pa.array(newer)).select([f for f in fields if f in rows.column_names]).to_pylist()
        for which, values in zip(sid[newer].tolist(), picked, strict=True):
            known.values[which] = values

    def _take_trail(self, known: Recent, rows: pa.Table, sid: Ints, times: Ints, fields: list[str], count: int) -> None:
        seconds = times // SECOND
        newest = int(seconds.max())
        for name in fields:
            values = numbers(rows.column(name)) if name in rows.column_names else None
            if values is None:
                continue
            by_second = known.trail.setdefault(name, {})
            for second in np.unique(seconds[seconds > newest - TRAIL_S]).tolist():
                here = seconds == second
                row = by_second.get(second)
                if row is None or len(row) < count:
                    before = np.empty(0) if row is None else row
                    by_second[second] = row = np.append(before, np.full(count - len(before), np.nan))
                row[sid[here]] = values[here]  # of several the last one stays
            for second in [s for s in by_second if s <= max(by_second) - TRAIL_S]:
                del by_second[second]


_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)


def numbers(column: pa.Array | pa.ChunkedArray) -> Floats | None:
    """The values of a column, NaN for NULL; None where its type has no numbers."""
    if not any(of(column.type) for of in _NUMERIC):
        return None
    return np.asarray(column.cast(pa.float64(), safe=False), np.float64)
