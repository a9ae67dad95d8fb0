"""Static rows of one table, every version of them, in the order they came.

A version is numbered by its place (vid) and never changes, except that it ends. Versions come in batches, kept
as Arrow chunks, so that one more row costs one more row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import Table

ALIVE = 2**62
Int32s = np.ndarray[Any, np.dtype[np.int32]]
Key = tuple[Any, ...]


class StaticRows:
    """All versions of a table's static rows; index = vid."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._values: list[tuple[Any, ...]] = []  # static values, then the address
        self._sids = np.empty(0, np.int32)
        self._born = np.empty(0, np.int64)
        self._died = np.empty(0, np.int64)
        self.count = 0
        self.sid_count = 0
        self._current: dict[int, int] = {}  # live sid -> vid
        self._by_key: dict[Key, int] = {}  # live key -> sid
        self._chunks: pa.Table | None = None  # columns of the first `_chunked` versions
        self._chunked = 0
        self._finder: tuple[list[pa.Array], Int32s] | None = None
        self._shown: pa.Table | None = None

    # -- changing, by CatalogState only

    def retable(self, table: Table) -> None:
        """The table got a column: older versions read NULL."""
        added = [c for c in table.columns if c not in self._table.columns]
        for _ in added:
            self._values = [(*v[:-1], None, v[-1]) for v in self._values]
        self._table = table
        self._chunks, self._chunked, self._finder, self._shown = None, 0, None, None

    def insert(self, rows: Sequence[Sequence[Any]], position: int) -> range:
        """New rows, each with a sid of its own; the vids they got."""
        return self._add([(self.sid_count + i, tuple(r)) for i, r in enumerate(rows)], position)

    def update(self, changes: Sequence[tuple[int, Sequence[Any]]], position: int) -> range:
        self._end([sid for sid, _ in changes], position)
        return self._add([(sid, tuple(values)) for sid, values in changes], position)

    def delete(self, sids: Sequence[int], position: int) -> None:
        self._end(sids, position)
        self._finder = self._shown = None

    def _end(self, sids: Sequence[int], position: int) -> None:
        for sid in sids:
            vid = self._current.pop(sid)
            self._died[vid] = position
            self._by_key.pop(self._key(self._values[vid]), None)

    def _add(self, rows: list[tuple[int, tuple[Any, ...]]], position: int) -> range:
        first = self.count
        self._reserve(first + len(rows))
        for offset, (sid, values) in enumerate(rows):
            vid = first + offset
            self._values.append(values)
            self._sids[vid], self._born[vid], self._died[vid] = sid, position, ALIVE
            self._current[sid] = vid
            if self._table.key:
                self._by_key[self._key(values)] = sid
            self.sid_count = max(self.sid_count, sid + 1)
        self.count = first + len(rows)
        self._finder = self._shown = None
        return range(first, self.count)

    def _reserve(self, size: int) -> None:
        if size > len(self._sids):
            room = max(64, size * 2) - len(self._sids)
            self._sids = np.concatenate([self._sids, np.zeros(room, np.int32)])
            self._born = np.concatenate([self._born, np.zeros(room, np.int64)])
            self._died = np.concatenate([self._died, np.zeros(room, np.int64)])

    def _key(self, values: tuple[Any, ...]) -> Key:
        names = [c.name for c in self._table.columns]
        return tuple(values[names.index(k)] for k in self._table.key)

    # -- reading

    @property
    def sids(self) -> Int32s:
        """vid -> sid."""
        return self._sids[: self.count]

    def live_sids(self) -> list[int]:
        return sorted(self._current)

    def values_of(self, vid: int) -> tuple[Any, ...]:
        """Static values of a version, then its address."""
        return self._values[vid]

    def current_values(self, sid: int) -> tuple[Any, ...]:
        """The live version of a sid: static values, then the address."""
        return self._values[self._current[sid]]

    def born(self, sid: int) -> int:
        """At which journal position a live sid's version came."""
        return int(self._born[self._current[sid]])

    def versions(self) -> pa.Table:
        """One row per vid: static columns, `_sid`, `_address`, `_born`, `_died`."""
        if self._shown is None or self._shown.num_rows != self.count:
            hidden = {
                "_sid": pa.array(self._sids[: self.count]),
                "_address": self._columns().column("_address"),
                "_born": pa.array(self._born[: self.count]),
                "_died": pa.array(self._died[: self.count]),
            }
            names = [c.name for c in self._table.columns]
            columns = [self._columns().column(n) for n in names]
            self._shown = pa.table([*columns, *hidden.values()], [*names, *hidden])
        return self._shown

    def _columns(self) -> pa.Table:
        if self._chunks is None or self._chunked < self.count:
            fresh = self._values[self._chunked : self.count]
            fields = [pa.field(c.name, c.type.to_arrow()) for c in self._table.columns]
            schema = pa.schema([*fields, pa.field("_address", pa.string())])
            columns = list(zip(*fresh, strict=True)) if fresh else [()] * len(schema)
            arrays = [_array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
            chunk = pa.Table.from_arrays(arrays, schema=schema)
            whole = chunk if self._chunks is None else pa.concat_tables([self._chunks, chunk])
            # Many small chunks make every look-up slow; many copies of the whole make every insert slow.
            self._chunks = whole.combine_chunks() if whole.column(0).num_chunks > 32 else whole
            self._chunked = self.count
        return self._chunks

    def current(self) -> pa.Table:
        """Live rows only, with `_vid`."""
        vids = np.flatnonzero(self._died[: self.count] == ALIVE).astype(np.int32)
        rows = self.versions().take(pa.array(vids))
        return rows.append_column("_vid", pa.array(vids))

    def vid_of(self, key: Key) -> int | None:
        sid = self._by_key.get(tuple(key))
        return None if sid is None else self._current[sid]

    def has_key(self, values: tuple[Any, ...]) -> bool:
        return bool(self._table.key) and self._key(values) in self._by_key

    def key_of(self, values: tuple[Any, ...]) -> Key:
        return self._key(values)

    def find(self, keys: list[pa.Array]) -> Int32s:
        """The current vid for each key, -1 where there is none. Arrays may be dictionaries or chunked."""
        arrays = [k.combine_chunks() if isinstance(k, pa.ChunkedArray) else k for k in keys]
        if self._finder is None:
            live = self.current()
            columns = [live.column(k).combine_chunks() for k in self._table.key]
            self._finder = (columns, live.column("_vid").to_numpy())
        columns, vids = self._finder
        if len(vids) == 0:
            return np.full(len(arrays[0]), -1, np.int32)
        wanted, known = _together(arrays, columns)
        index = pc.index_in(wanted, value_set=known)
        missing = pc.is_null(index).to_numpy(zero_copy_only=False)
        found = vids[pc.fill_null(index, 0).to_numpy()]
        return np.where(missing, np.int32(-1), found).astype(np.int32)


def _together(arrays: list[pa.Array], columns: list[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """One array to look up in one other: several key columns become one text, apart by a mark no text has."""
    cast = [a.cast(c.type) for a, c in zip(arrays, columns, strict=True)]
    if len(columns) == 1:
        return cast[0], columns[0]
    mark = "\x1f"
    return (
        pc.binary_join_element_wise(*(c.cast(pa.string()) for c in cast), mark),
        pc.binary_join_element_wise(*(c.cast(pa.string()) for c in columns), mark),
    )


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_):
        import decimal

        return pa.array([None if v is None else decimal.Decimal(str(v)) for v in values], type_)
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    if pa.types.is_binary(type_):
        return pa.array([bytes.fromhex(v) if isinstance(v, str) else v for v in values], type_)
    return pa.array(values, type_)
