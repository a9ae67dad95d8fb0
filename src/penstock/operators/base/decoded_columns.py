"""A cache of decoded columns of compacted files: a quiet table's newest rows are in Parquet and are read again and again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.streams.log.compaction import ROW_GROUP_ROWS
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, Slice

MOST_BYTES = 96 << 20
MOST_IDLE_S = 20.0  # windows move on to newer files: what they left behind must not pile up to the limit first
MOST_GROUPS = 2  # a read of more groups is of a long history, which is rarely repeated soon

_Key = tuple[Path, tuple[int, int], int, str, str]


@dataclass(slots=True)
class _Kept:
    column: pa.ChunkedArray
    used_s: float


class DecodedColumns:
    """Decoded columns by file, row group and column; unused ones are dropped. Thread-safe."""

    def __init__(self, most_bytes: int = MOST_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._most_bytes = most_bytes
        self._clock = clock
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._nbytes = 0

    def read(self, segment: Segment, mark: tuple[int, int], first: int, end: int, schema: pa.Schema) -> pa.Table | None:
        """Rows [first, end) of a file, counted from its own first; None where that is more than is kept of one."""
        groups = range(first // ROW_GROUP_ROWS, (end - 1) // ROW_GROUP_ROWS + 1)
        if len(groups) > MOST_GROUPS:
            return None
        parts = [self._group(segment, mark, group, schema) for group in groups]
        return pa.concat_tables(parts).slice(first - groups[0] * ROW_GROUP_ROWS, end - first)

    def _group(self, segment: Segment, mark: tuple[int, int], group: int, schema: pa.Schema) -> pa.Table:
        keys = [(segment.path, mark, group, f.name, str(f.type)) for f in schema]
        known = self._known(keys)
        missing = pa.schema([f for f in schema if f.name not in known])
        if len(missing):
            skip = group * ROW_GROUP_ROWS
            rows = min(ROW_GROUP_ROWS, segment.end - segment.first - skip)
            read = read_slice(Slice(segment.path, segment.format, segment.first + skip, skip, rows), schema=missing)
            known |= dict(zip(read.column_names, read.columns, strict=True))
            self._keep({key: known[key[3]] for key in keys if key[3] in missing.names})
        return pa.Table.from_arrays([known[name] for name in schema.names], schema=schema)

    def _known(self, keys: list[_Key]) -> dict[str, pa.ChunkedArray]:
        now_s = self._clock()
        with self._lock:
            found = {}
            for key in keys:
                kept = self._kept.get(key)
                if kept is not None:
                    kept.used_s = now_s
                    self._kept.move_to_end(key)
                    found[key[3]] = kept.column
            return found

    def _keep(self, columns: dict[_Key, pa.ChunkedArray]) -> None:
        now_s = self._clock()
        with self._lock:
            for key, column in columns.items():
                if key not in self._kept:
                    self._kept[key] = _Kept(column, now_s)
                    self._nbytes += column.nbytes
            while self._kept and (self._nbytes > self._most_bytes or self._oldest().used_s < now_s - MOST_IDLE_S):
                self._nbytes -= self._kept.popitem(last=False)[1].column.nbytes

    def _oldest(self) -> _Kept:
        return next(iter(self._kept.values()))
