"""The log's newest files, kept mapped: invocations read the same few again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

import pyarrow as pa

from penstock.streams.segments import Segment, Slice, read_slice

MOST_FILES = 512


class OpenFiles:
    """Arrow files as tables without a copy, those used last. Compacted ones are read as they are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[Path, tuple[tuple[int, int], pa.Table]] = OrderedDict()

    def read(self, segment: Segment, first: int, end: int, schema: pa.Schema) -> pa.Table:
        """Rows [first, end) of a segment, counted from its own first; NULL where the file is older than a column."""
        if segment.format != "arrow":
            piece = Slice(segment.path, segment.format, segment.first + first, first, end - first)
            return read_slice(piece, schema=schema)
        table = self._table(segment)
        known = {field.name: field.type for field in table.schema}
        if all(known.get(f.name) == f.type for f in schema):
            return table.select(schema.names).slice(first, end - first)
        rows = table.slice(first, end - first)
        arrays = [rows.column(f.name) if f.name in known else pa.nulls(end - first, f.type) for f in schema]
        same = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)]
        return pa.Table.from_arrays(same, schema=schema)

    def _table(self, segment: Segment) -> pa.Table:
        mark = _mark(segment.path)
        with self._lock:
            known = self._tables.get(segment.path)
            if known is not None and known[0] == mark:
                self._tables.move_to_end(segment.path)
                return known[1]
        whole = Slice(segment.path, segment.format, segment.first, 0, segment.end - segment.first)
        table = read_slice(whole)
        if mark is not None:
            with self._lock:
                self._tables[segment.path] = mark, table
                while len(self._tables) > MOST_FILES:
                    self._tables.popitem(last=False)
        return table


def _mark(path: Path) -> tuple[int, int] | None:
    """A file that has changed since it was mapped has to pass its checksum again."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns
