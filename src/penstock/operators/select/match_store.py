"""The match store of one table: bit matrices and lists with the matches of many queries, by log range.

Lists are durable. Bit matrices are not: the store keeps the range and the queries of a lost one, so that these rows are
evaluated again for these queries.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pyroaring import BitMap

from penstock.operators.base.ranges import Range
from penstock.operators.select.bit_matrix import BitMatrix, BitMatrixRef, map_matrix
from penstock.operators.select.position_lists import MOST_ROWS, Ints, PositionLists, merge_lists

# A reader searches each one.
MOST_SHEETS = 4096
MOST_LOST = 256
MOST_LISTS = 24
# Lists beyond this are merged no further: readers skip those that lie before their window, and sorting millions takes seconds.
MERGED_POSITIONS = 1 << 21


class QueryCounters:
    """A sum per query. A dropped query's sum is removed."""

    def __init__(self) -> None:
        self._queries = np.empty(0, np.int64)  # ascending
        self._sums = np.empty(0, np.int64)

    def add(self, queries: Ints, counts: Ints) -> None:
        """Add to some queries; ascending, each once."""
        at = np.searchsorted(self._queries, queries)
        new = np.ones(len(queries), np.bool_)
        inside = at < len(self._queries)
        new[inside] = self._queries[at[inside]] != queries[inside]
        if new.any():
            self._queries = np.insert(self._queries, at[new], queries[new])
            self._sums = np.insert(self._sums, at[new], 0)
            at = np.searchsorted(self._queries, queries)
        self._sums[at] += counts

    def take(self, queries: Ints, counts: Ints) -> None:
        """Take away again what was added."""
        self.add(queries, -counts)

    def forget_empty(self) -> None:
        """Forget the queries that nothing is left of."""
        left = self._sums != 0
        if not left.all():
            self._queries, self._sums = self._queries[left], self._sums[left]

    def forget(self, query_id: int) -> None:
        at = self._place(query_id)
        if at is not None:
            self._queries, self._sums = np.delete(self._queries, at), np.delete(self._sums, at)

    def __getitem__(self, query_id: int) -> int:
        at = self._place(query_id)
        return 0 if at is None else int(self._sums[at])

    def _place(self, query_id: int) -> int | None:
        at = int(np.searchsorted(self._queries, query_id))
        return at if at < len(self._queries) and self._queries[at] == query_id else None


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A bit matrix that exists, and how the commit record names it."""

    name: BitMatrixRef
    sheet: BitMatrix

    @property
    def first(self) -> int:
        return self.name.first

    @property
    def end(self) -> int:
        return self.name.end


@dataclass(frozen=True, slots=True)
class LostMatrix:
    """A log range with a lost bit matrix; `members` are the queries that it had."""

    first: int
    end: int
    members: BitMap


@dataclass(frozen=True, slots=True)
class MatchStoreAt:
    """A match store as of one cycle, safe to read while the store changes."""

    sheets: tuple[StoredMatrix, ...] = ()
    lost: tuple[LostMatrix, ...] = ()
    lists: tuple[PositionLists, ...] = ()

    def overlapping(self, first: int, end: int) -> Iterator[StoredMatrix]:
        """Bit matrices with rows in [first, end), in log order."""
        # They do not overlap, so they end in the order in which they begin.
        at = bisect_left(self.sheets, first + 1, key=_end)
        while at < len(self.sheets) and self.sheets[at].first < end:
            yield self.sheets[at]
            at += 1

    def positions(self, query_id: int, first: int, end: int) -> list[Ints]:
        """Matches of a query in [first, end) from bit matrices and lists, each part ascending."""
        found = []
        for kept in self.overlapping(first, end):
            row = kept.sheet.row(query_id)
            if row >= 0:
                found.append(_within(kept.sheet.positions(row), first, end))
        for lists in self.lists:
            if lists.first < end and lists.end > first:
                listed = lists.positions(query_id)
                if listed is not None:
                    found.append(_within(listed, first, end))
        return found

    def missing(self, query_id: int, first: int, end: int) -> list[Range]:
        """Ranges in [first, end) where the bit matrix of a query is lost."""
        return [
            (max(lost.first, first), min(lost.end, end))
            for lost in self.lost
            if lost.first < end and lost.end > first and query_id in lost.members
        ]


@dataclass(slots=True)
class MatchStore:
    """The bit matrices and lists of one table. Changed under its owner's lock."""

    folder: Path
    sheets: list[StoredMatrix] = field(default_factory=list)
    lost: list[LostMatrix] = field(default_factory=list)
    lists: list[PositionLists] = field(default_factory=list)
    nbytes: int = 0
    # Added up as they come and go: a list of ten thousand queries reads no bit matrix.
    _shares: QueryCounters = field(default_factory=QueryCounters)
    _unused: list[Path] = field(default_factory=list)
    _view: MatchStoreAt | None = None

    def view(self) -> MatchStoreAt:
        if self._view is None:
            self._view = MatchStoreAt(tuple(self.sheets), tuple(self.lost), tuple(self.lists))
        return self._view

    def put(self, name: BitMatrixRef) -> None:
        sheet = map_matrix(self.folder / name.file) if name.file is not None else None
        fits = sheet is not None and (sheet.table_id, sheet.first, sheet.end) == (name.table_id, name.first, name.end)
        if sheet is None or not fits:
            self._note_lost(name)
        else:
            insort(self.sheets, StoredMatrix(name, sheet), key=_first)
            self.nbytes += sheet.nbytes
            self._shares.add(*_sheet_shares(sheet))
        if len(self.sheets) > MOST_SHEETS:
            self.give_up(self.sheets[: MOST_SHEETS // 8])
        self._view = None

    def put_lists(self, lists: PositionLists) -> None:
        self.lists.append(lists)
        self._shares.add(*_list_shares(lists))
        self._view = None

    def share(self, query_id: int) -> int:
        """A query's share of the bytes of bit matrices and lists, divided among the queries of each."""
        return self._shares[query_id]

    def give_up(self, some: list[StoredMatrix]) -> None:
        """Drop bit matrices; their rows are evaluated again on request."""
        gone = {id(k) for k in some}
        self.sheets = [k for k in self.sheets if id(k) not in gone]
        for kept in some:
            self._note_lost(kept.name)
            self._remove(kept)
        self._view = None

    def give_up_passed(self, now_us: int, spans: Sequence[tuple[int, BitMap]]) -> None:
        """Drop the bit matrices that no window of their queries reaches. `spans`: spans and their queries, widest first."""
        shortest = spans[-1][0] if spans else None
        old = []
        for kept in self.sheets:
            age = now_us - kept.name.max_ts
            if shortest is not None and age <= shortest:
                continue  # most of them, and the newest
            reach = next((span for span, whose in spans if whose.intersect(kept.name.members)), -1)
            if age > reach:
                old.append(kept)
        if old:
            self.give_up(old)

    def forget_below(self, position: int) -> None:
        """Forget bit matrices below a position: no window reaches these rows any more."""
        for kept in [k for k in self.sheets if k.end <= position]:
            self._remove(kept)
        self.sheets = [k for k in self.sheets if k.end > position]
        self.lost = [lost for lost in self.lost if lost.end > position]
        self._shares.forget_empty()
        self._view = None

    def merge(self, keep_from: dict[int, int] | None) -> None:
        """Merge many lists into few. With `keep_from`, drop positions below it, which their queries no longer reach."""
        if len(self.lists) <= (0 if keep_from is not None else 1):
            return
        groups = [group for near in _within_reach(self.lists) for group in _to_merge(near)]
        whole = [g[0] for g in groups if keep_from is None and len(g) == 1]
        changing = [g for g in groups if keep_from is not None or len(g) > 1]
        merged = [m for g in changing if (m := merge_lists(g, keep_from)) is not None]
        for part in (part for group in changing for part in group):
            self._shares.take(*_list_shares(part))
        for part in merged:
            self._shares.add(*_list_shares(part))
        self._shares.forget_empty()
        self.lists = [*whole, *merged]
        self._view = None

    def _remove(self, kept: StoredMatrix) -> None:
        self.nbytes -= kept.sheet.nbytes
        self._shares.take(*_sheet_shares(kept.sheet))
        if kept.name.file is not None:
            self._unused.append(self.folder / kept.name.file)

    def take_files(self) -> list[Path]:
        """Files that are no longer needed; the caller removes them."""
        unused, self._unused = self._unused, []
        return unused

    def _note_lost(self, name: BitMatrixRef) -> None:
        insort(self.lost, LostMatrix(name.first, name.end, name.members), key=_first)
        if len(self.lost) > MOST_LOST:
            # Larger lost ranges for more queries are safe: some known rows are then evaluated again.
            pairs = zip(self.lost[::2], self.lost[1::2], strict=False)
            rest = self.lost[-1:] if len(self.lost) % 2 else []
            # Bit matrices are lost in any order, so a later range may lie within a merged one.
            self.lost = [LostMatrix(a.first, max(a.end, b.end), a.members | b.members) for a, b in pairs] + rest

    def close(self) -> None:
        """Remove everything, because the table was dropped."""
        for kept in self.sheets:
            self._remove(kept)
        for path in self.take_files():
            path.unlink(missing_ok=True)


def _within_reach(lists: list[PositionLists]) -> list[list[PositionLists]]:
    """Lists by where they lie: as many together as one list has row numbers for, and is to have positions."""
    groups: list[list[PositionLists]] = []
    positions = 0
    for part in sorted(lists, key=lambda part: part.first):
        positions += len(part.offsets)
        if groups and part.end - groups[-1][0].first < MOST_ROWS and positions <= MERGED_POSITIONS:
            groups[-1].append(part)
        else:
            groups.append([part])
            positions = len(part.offsets)
    return groups


def _to_merge(parts: list[PositionLists]) -> list[list[PositionLists]]:
    """The largest stays as it is while the others are small beside it: a position is merged log n times."""
    sizes = [len(p.offsets) for p in parts]
    large = int(np.argmax(sizes))
    if len(parts) > 1 and 2 * sizes[large] > sum(sizes) and len(parts) <= MOST_LISTS:
        return [[parts[large]], parts[:large] + parts[large + 1 :]]
    return [parts]


def _sheet_shares(sheet: BitMatrix) -> tuple[Ints, Ints]:
    """Bytes of a bit matrix by query."""
    return sheet.queries, np.full(len(sheet.queries), sheet.nbytes // max(1, len(sheet.queries)))


def _list_shares(lists: PositionLists) -> tuple[Ints, Ints]:
    """Bytes of lists by query: its row numbers, its id and where they begin."""
    return lists.queries, lists.offsets.itemsize * np.diff(lists.starts) + 16


def _within(positions: Ints, first: int, end: int) -> Ints:
    low, high = np.searchsorted(positions, (first, end))
    return positions[low:high]


def _first(kept: StoredMatrix | LostMatrix) -> int:
    return kept.first


def _end(kept: StoredMatrix) -> int:
    return kept.end
