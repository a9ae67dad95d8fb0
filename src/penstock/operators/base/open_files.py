"""Caches of the log: memory maps of its newest files, and decoded columns of compacted ones, which answers read again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.cancellation import check
from penstock.catalog.model import POSITION_COLUMN
from penstock.streams.log.compaction import ROW_GROUP_ROWS
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, Slice

MOST_BYTES = 96 << 20
MOST_IDLE_S = 20.0  # windows move on to newer files: what they left behind must not pile up to the limit first
MOST_GROUPS = 2  # a read of more groups is of a long history, which is rarely repeated soon

_Key = tuple[Path, tuple[int, int], int, str, str]


class DecodedColumns:
    """Decoded columns by file, row group and column; unused ones are dropped. Thread-safe."""

    def __init__(self, most_bytes: int = MOST_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._most_bytes = most_bytes
        self._kept: Cache[_Key, pa.ChunkedArray] = Cache(most_bytes=most_bytes, idle_s=MOST_IDLE_S, clock=clock)

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
        with self._lock:
            found = {key[3]: self._kept.get(key) for key in keys}
        return {name: column for name, column in found.items() if column is not None}

    def _keep(self, columns: dict[_Key, pa.ChunkedArray]) -> None:
        with self._lock:
            for key, column in columns.items():
                if column.nbytes <= self._most_bytes:
                    self._kept.put(key, column, column.nbytes)


MOST_FILES = 512
_Mapped = tuple[pa.Table, dict[str, pa.DataType]]


class OpenFiles:
    """The last used Arrow files as tables without a copy, and columns of compacted files."""

    def __init__(self, decoded: DecodedColumns | None = None) -> None:
        self._lock = threading.Lock()
        self._decoded = decoded or DecodedColumns()
        self._tables: Cache[Path, tuple[tuple[int, int], _Mapped]] = Cache(most=MOST_FILES)

    def read(self, segment: Segment, first: int, end: int, schema: pa.Schema) -> pa.Table:
        """Rows [first, end) of a segment, counted from its own first; NULL where the file is older than a column."""
        check()
        if segment.format != "arrow":
            mark = _mark(segment.path)
            rows = self._decoded.read(segment, mark, first, end, schema) if mark is not None else None
            piece = Slice(segment.path, segment.format, segment.first + first, first, end - first)
            return rows if rows is not None else read_slice(piece, schema=schema)
        table, known = self._table(segment)
        rows = table.slice(first, end - first)
        if all(known.get(f.name) == f.type for f in schema):
            return rows.select(schema.names)
        places = (segment.first + first, segment.first + end)
        arrays = [rows.column(f.name) if f.name in known else _missing(f, *places) for f in schema]
        same = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)]
        return pa.Table.from_arrays(same, schema=schema)

    def _table(self, segment: Segment) -> _Mapped:
        mark = _mark(segment.path)
        with self._lock:
            known = self._tables.get(segment.path)
        if known is not None and known[0] == mark:
            return known[1]
        whole = Slice(segment.path, segment.format, segment.first, 0, segment.end - segment.first)
        table = read_slice(whole)
        mapped = table, {field.name: field.type for field in table.schema}
        if mark is not None:
            with self._lock:
                self._tables.put(segment.path, (mark, mapped))
        return mapped


def _missing(field: pa.Field, first: int, end: int) -> pa.Array:
    """A column that a file does not have: where its rows stand, or NULL."""
    if field.name == POSITION_COLUMN.name:
        return pa.array(np.arange(first, end, dtype=np.int64))
    return pa.nulls(end - first, field.type)


def _mark(path: Path) -> tuple[int, int] | None:
    """A file that has changed since it was mapped has to pass its checksum again."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns
