"""Static rows of one table, every version of them, in the order they came.

A version is numbered by its place (vid) and never changes, except that it ends. One thread changes rows (the
catalog's, through CatalogState); any thread may read at the same time, and sees all of a change or nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.definition_json import arrow_array, journal_form
from penstock.catalog.model import Table
from penstock.types import TEXT, Field


class KeyFinder:
    """Looks keys up among those of the live rows. Immutable; threads may share it.

    Key columns are folded into one from the left: a pair of columns becomes a column of numbers, one for each
    pair that exists. So no text of one key can run into the next, and any number of columns costs the same each.
    """

    def __init__(self, columns: list[pa.ChunkedArray], vids: Int32s) -> None:
        self._types = [c.type for c in columns]
        known = [_comparable(c.combine_chunks()) for c in columns]
        self._known = [k.unique() if len(known) > 1 else k for k in known]
        self._pairs: list[pa.Array] = []
        codes = pc.index_in(known[0], value_set=self._known[0])
        for column, values in zip(known[1:], self._known[1:], strict=True):
            pairs = _pair(codes, pc.index_in(column, value_set=values), len(values))
            self._pairs.append(pairs.unique())
            codes = pc.index_in(pairs, value_set=self._pairs[-1])
        self._vids = np.full(len(vids), -1, np.int32)
        self._vids[codes.to_numpy()] = vids

    def find(self, keys: list[pa.Array | pa.ChunkedArray]) -> Int32s:
        """The vid of each key, -1 where there is none."""
        if len(self._vids) == 0:
            return np.full(len(keys[0]), -1, np.int32)
        codes = self._codes(keys[0], 0)
        for number, pairs in enumerate(self._pairs, start=1):
            both = _pair(codes, self._codes(keys[number], number), len(self._known[number]))
            codes = pc.index_in(both, value_set=pairs)
        found: Int32s = self._vids[pc.fill_null(codes, 0).to_numpy(zero_copy_only=False)]
        if codes.null_count:
            found[pc.is_null(codes).to_numpy(zero_copy_only=False)] = -1
        return found

    def _codes(self, keys: pa.Array | pa.ChunkedArray, number: int) -> pa.Array:
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        if pa.types.is_dictionary(keys.type):
            return self._codes(keys.dictionary, number).take(keys.indices)
        wanted = _comparable(_as_type(keys, self._types[number]))
        return pc.index_in(wanted, value_set=self._known[number], skip_nulls=True)


def _pair(left: pa.Array, right: pa.Array, count: int) -> pa.Array:
    """One number for two codes, NULL where either is; `right` is below `count`."""
    return pc.add(pc.multiply(left.cast(pa.int64()), count), right.cast(pa.int64()))


def _comparable(values: pa.Array) -> pa.Array:
    # Zero has two bit patterns, which hashing would tell apart; adding zero leaves one of them.
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


def _as_type(keys: pa.Array, type_: pa.DataType) -> pa.Array:
    """Keys in the type of their column, NULL for those that no value of it equals."""
    if keys.type == type_:
        return keys
    if pa.types.is_int64(keys.type) and pa.types.is_int32(type_):
        low, high = pa.scalar(-(2**31), pa.int64()), pa.scalar(2**31 - 1, pa.int64())
        fits = pc.and_(pc.greater_equal(keys, low), pc.less_equal(keys, high))
        return pc.if_else(fits, keys, None).cast(type_)
    try:
        return keys.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # A client sent what the column cannot hold; it is not worth more than a walk over the distinct ones.
        encoded = keys.dictionary_encode()
        values = [_scalar_as(value, type_) for value in encoded.dictionary]
        return pa.array(values, type_).take(encoded.indices)


def _scalar_as(value: pa.Scalar, type_: pa.DataType) -> Any:
    try:
        return value.cast(type_).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


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


ALIVE = 2**62
Int32s = np.ndarray[Any, np.dtype[np.int32]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]
Key = tuple[Any, ...]


@dataclass(eq=False)
class _View:
    """The versions between two changes. Nothing in it is ever written again; what is costly is made when asked for."""

    table: Table
    columns: VersionColumns
    values: list[tuple[Any, ...]]
    sids: Int32s
    born: Int64s
    died: Int64s

    @cached_property
    def versions(self) -> pa.Table:
        static = self.columns.first(len(self.sids), self.values)
        names = [c.name for c in self.table.columns]
        hidden = {
            "_sid": pa.array(self.sids),
            "_address": static.column(ADDRESS.name),
            "_born": pa.array(self.born),
            "_died": pa.array(self.died),
        }
        return pa.table([*(static.column(n) for n in names), *hidden.values()], [*names, *hidden])

    @cached_property
    def current(self) -> pa.Table:
        vids = np.flatnonzero(self.died == ALIVE).astype(np.int32)
        rows = self.versions if len(vids) == len(self.sids) else self.versions.take(pa.array(vids))
        return rows.append_column("_vid", pa.array(vids))

    @cached_property
    def finder(self) -> KeyFinder:
        live = self.current
        return KeyFinder([live.column(k) for k in self.table.key], live.column("_vid").to_numpy())


class StaticRows:
    """All versions of a table's static rows; index = vid."""

    def __init__(self, table: Table) -> None:
        self._lock = threading.Lock()
        self._values: list[tuple[Any, ...]] = []  # static values, then the address; grows only
        self._sids = np.empty(0, np.int32)
        self._born = np.empty(0, np.int64)
        self._died = np.empty(0, np.int64)
        self.count = 0
        self.sid_count = 0
        self._current: dict[int, int] = {}  # live sid -> vid
        self._by_key: dict[Key, int] = {}  # live key -> vid
        self._view: _View | None = None
        self._shared = False  # whether a view looks at the first `count` of `_died`
        self._set_table(table)

    def _set_table(self, table: Table) -> None:
        names = [c.name for c in table.columns]
        self._table = table
        self._columns = VersionColumns(table)
        self._key_places = [names.index(k) for k in table.key]
        self._key_forms = [journal_form(table.columns[p].type) for p in self._key_places]

    # -- in a snapshot of the catalog

    def to_json(self) -> dict[str, Any]:
        with self._lock:
            count = self.count
            return {
                "values": self._values[:count],
                "sids": self._sids[:count].tolist(),
                "born": self._born[:count].tolist(),
                "died": self._died[:count].tolist(),
                "sid_count": self.sid_count,
            }

    @classmethod
    def from_json(cls, table: Table, data: dict[str, Any]) -> StaticRows:
        found = cls(table)
        found._values = [tuple(values) for values in data["values"]]
        found._sids = np.array(data["sids"], np.int32)
        found._born, found._died = np.array(data["born"], np.int64), np.array(data["died"], np.int64)
        found.count, found.sid_count = len(found._values), data["sid_count"]
        for vid in np.flatnonzero(found._died == ALIVE).tolist():
            found._current[int(found._sids[vid])] = vid
            if found._key_places:
                found._by_key[found.key_of(found._values[vid])] = vid
        return found

    # -- changing, by CatalogState only

    def retable(self, table: Table) -> None:
        """The table got columns: older versions read NULL."""
        with self._lock:
            added = len(table.columns) - len(self._table.columns)
            if added:
                self._values = [(*v[:-1], *([None] * added), v[-1]) for v in self._values]
            self._set_table(table)
            self._view = None

    def insert(self, rows: Sequence[Sequence[Any]], position: int) -> range:
        """New rows, each with a sid of its own; the vids they got."""
        with self._lock:
            return self._add([(self.sid_count + i, tuple(r)) for i, r in enumerate(rows)], position)

    def update(self, changes: Sequence[tuple[int, Sequence[Any]]], position: int) -> range:
        """New versions of live sids; the vids they got."""
        with self._lock:
            self._end([sid for sid, _ in changes], position)
            return self._add([(sid, tuple(values)) for sid, values in changes], position)

    def lose(self, count: int, position: int) -> None:
        """Versions up to `count` that were defined by a lost entry: sensors of their own, which are gone and all NULL."""
        with self._lock:
            nulls = (None,) * (len(self._table.columns) + 1)
            first, end = self.count, max(self.count, count)
            self._reserve(end)
            self._sids[first:end] = range(self.sid_count, self.sid_count + end - first)
            self._born[first:end] = self._died[first:end] = position
            self._values.extend([nulls] * (end - first))
            self.sid_count += end - first
            self.count = end
            self._view = None

    def delete(self, sids: Sequence[int], position: int) -> None:
        with self._lock:
            self._end(sids, position)
            self._view = None

    def _end(self, sids: Sequence[int], position: int) -> None:
        if self._shared:
            self._died, self._shared = self._died.copy(), False
        for sid in sids:
            vid = self._current.pop(sid)
            self._died[vid] = position
            self._by_key.pop(self.key_of(self._values[vid]), None)

    def _add(self, rows: list[tuple[int, tuple[Any, ...]]], position: int) -> range:
        first, end = self.count, self.count + len(rows)
        self._reserve(end)
        self._sids[first:end] = [sid for sid, _ in rows]
        self._born[first:end] = position
        self._died[first:end] = ALIVE
        for vid, (sid, values) in enumerate(rows, start=first):
            self._values.append(values)
            self._current[sid] = vid
            if self._key_places:
                self._by_key[self.key_of(values)] = vid
            self.sid_count = max(self.sid_count, sid + 1)
        self.count = end
        self._view = None
        return range(first, end)

    def _reserve(self, size: int) -> None:
        if size > len(self._sids):
            room = max(64, size * 2) - len(self._sids)
            self._sids = np.concatenate([self._sids, np.zeros(room, np.int32)])
            self._born = np.concatenate([self._born, np.zeros(room, np.int64)])
            self._died, self._shared = np.concatenate([self._died, np.zeros(room, np.int64)]), False

    # -- reading

    def _look(self) -> _View:
        with self._lock:
            if self._view is None:
                lives = (self._sids[: self.count], self._born[: self.count], self._died[: self.count])
                self._view = _View(self._table, self._columns, self._values, *lives)
                self._shared = True
            return self._view

    @property
    def sids(self) -> Int32s:
        """vid -> sid."""
        count = self.count  # before the array: it may only have grown since
        return self._sids[:count]

    def versions(self) -> pa.Table:
        """One row per vid: static columns, `_sid`, `_address`, `_born`, `_died`."""
        return self._look().versions

    def current(self) -> pa.Table:
        """Live rows only, with `_vid`."""
        return self._look().current

    def find(self, keys: list[pa.Array], rows: int | None = None) -> Int32s:
        """The current vid for each key, -1 where there is none. Arrays may be dictionaries or chunked.

        A table without a key is one sensor, and all of `rows` readings are its own.
        """
        if self._key_places:
            return self._look().finder.find(keys)
        assert rows is not None, "a table without a key: say how many rows"
        vids = self._look().current.column("_vid").to_numpy()
        return np.full(rows, vids[0] if len(vids) == 1 else -1, np.int32)

    def vid_of(self, key: Key) -> int | None:
        try:
            wanted = tuple(form(v) for form, v in zip(self._key_forms, key, strict=True))
        except ValueError:
            return None
        with self._lock:
            return self._by_key.get(wanted)

    def key_of(self, values: Sequence[Any]) -> Key:
        """The key among static values in the journal's form."""
        return tuple([values[p] for p in self._key_places])

    def has_key(self, values: Sequence[Any]) -> bool:
        """Whether a live row has the key that is among these values."""
        with self._lock:
            return bool(self._key_places) and self.key_of(values) in self._by_key

    def is_live(self, sid: int) -> bool:
        return sid in self._current

    def live_sids(self) -> list[int]:
        with self._lock:
            return sorted(self._current)

    def current_values(self, sid: int) -> tuple[Any, ...]:
        """The live version of a sid: static values, then the address, in the journal's form."""
        with self._lock:
            return self._values[self._current[sid]]
