"""A cache of memory maps of the log's newest files: invocations read the same few files again and again."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.cancellation import check
from penstock.catalog.model import POSITION_COLUMN
from penstock.operators.base.decoded_columns import DecodedColumns
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, Slice

MOST_FILES = 512
_Mapped = tuple[pa.Table, dict[str, pa.DataType]]


class OpenFiles:
    """The last used Arrow files as tables without a copy, and columns of compacted files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decoded = DecodedColumns()
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
