"""Static values of a table's row versions as Arrow columns that grow at the end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.catalog.model import Table
from penstock.catalog.values import arrow_array
from penstock.types import TEXT, Field

ADDRESS = Field("_address", TEXT)


class VersionColumns:
    """The static columns and `_address` of an append-only list of versions. Threads may ask at the same time.

    Pieces double in size towards the front, as in a binary counter: one more row costs the logarithm of
    all rows, and a reader meets no more pieces than that.
    """

    def __init__(self, table: Table) -> None:
        self._fields = (*table.columns, ADDRESS)
        self._lock = threading.Lock()
        self._pieces: list[pa.Table] = []
        self._done = 0

    def first(self, count: int, values: Sequence[tuple[Any, ...]]) -> pa.Table:
        """The first `count` versions; `values` holds at least those, the same ones at every call."""
        with self._lock:
            if self._done < count or not self._pieces:
                self._add(values[self._done : count])
                self._done = count
            return pa.concat_tables(self._pieces).slice(0, count)

    def _add(self, values: Sequence[tuple[Any, ...]]) -> None:
        columns = zip(*values, strict=True) if values else iter([()] * len(self._fields))
        arrays = [arrow_array(c, f.type) for c, f in zip(columns, self._fields, strict=True)]
        piece = pa.table(arrays, [f.name for f in self._fields])
        while self._pieces and self._pieces[-1].num_rows <= piece.num_rows:
            piece = pa.concat_tables([self._pieces.pop(), piece]).combine_chunks()
        self._pieces.append(piece)
