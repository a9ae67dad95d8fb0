"""Columns of compacted files, kept decoded: a quiet table's newest rows are in Parquet, and are asked for again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

import pyarrow as pa

from penstock.streams.compaction import ROW_GROUP_ROWS
from penstock.streams.segments import Segment, Slice, read_slice

MOST_BYTES = 96 << 20
MOST_GROUPS = 2  # who reads more at once reads a long history, which nobody asks for again so soon

_Key = tuple[Path, tuple[int, int], int, str, str]


class DecodedColumns:
    """By file, row group and column, those used last. Any thread may ask."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._lock = threading.Lock()
        self._most_bytes = most_bytes
        self._kept: OrderedDict[_Key, pa.ChunkedArray] = OrderedDict()
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
        with self._lock:
            known = {key[3]: self._kept[key] for key in keys if key in self._kept}
            for key in keys:
                if key in self._kept:
                    self._kept.move_to_end(key)
        missing = pa.schema([f for f in schema if f.name not in known])
        if len(missing):
            skip = group * ROW_GROUP_ROWS
            rows = min(ROW_GROUP_ROWS, segment.end - segment.first - skip)
            read = read_slice(Slice(segment.path, segment.format, segment.first + skip, skip, rows), schema=missing)
            known |= dict(zip(read.column_names, read.columns, strict=True))
            self._keep({key: known[key[3]] for key in keys if key[3] in missing.names})
        return pa.Table.from_arrays([known[name] for name in schema.names], schema=schema)

    def _keep(self, columns: dict[_Key, pa.ChunkedArray]) -> None:
        with self._lock:
            for key, column in columns.items():
                if key not in self._kept:
                    self._kept[key] = column
                    self._nbytes += column.nbytes
            while self._nbytes > self._most_bytes:
                self._nbytes -= self._kept.popitem(last=False)[1].nbytes
