"""One table's sheets and lists in the server: what tasks found for many queries at once, by log range.

Lists are durable. Sheets are not: one that is lost or given up leaves its range and its members behind, so that a
member knows which rows it has to look at again.
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
from penstock.views.query_counters import QueryCounters

# A reader looks into each one.
MOST_SHEETS = 4096
MOST_LOST = 256
MOST_LISTS = 24


@dataclass(frozen=True, slots=True)
class StoredMatrix:
    """A sheet that is there, and how the commit record names it."""

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
    """A log range whose sheet is gone; `members` were answered by it."""

    first: int
    end: int
    members: BitMap


@dataclass(frozen=True, slots=True)
class MatchStoreAt:
    """A shelf as of one cycle, safe to read while others are put on it."""

    sheets: tuple[StoredMatrix, ...] = ()
    lost: tuple[LostMatrix, ...] = ()
    lists: tuple[PositionLists, ...] = ()

    def overlapping(self, first: int, end: int) -> Iterator[StoredMatrix]:
        """Sheets with rows in [first, end), in log order."""
        # They do not overlap, so they end in the order in which they begin.
        at = bisect_left(self.sheets, first + 1, key=_end)
        while at < len(self.sheets) and self.sheets[at].first < end:
            yield self.sheets[at]
            at += 1

    def positions(self, query_id: int, first: int, end: int) -> list[Ints]:
        """What sheets and lists name in [first, end) for a query, ascending each."""
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
        """Where in [first, end) a query was answered by a sheet that is gone."""
        return [
            (max(lost.first, first), min(lost.end, end))
            for lost in self.lost
            if lost.first < end and lost.end > first and query_id in lost.members
        ]


@dataclass(slots=True)
class MatchStore:
    """The sheets and lists of one table. Changed under its owner's lock."""

    folder: Path
    sheets: list[StoredMatrix] = field(default_factory=list)
    lost: list[LostMatrix] = field(default_factory=list)
    lists: list[PositionLists] = field(default_factory=list)
    nbytes: int = 0
    # Added up as they come and go: whoever lists ten thousand queries looks into no sheet.
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
        """Bytes of sheets and lists that are there for a query, divided among those who share them."""
        return self._shares[query_id]

    def give_up(self, some: list[StoredMatrix]) -> None:
        """Drop sheets; whoever asks for their rows evaluates them."""
        gone = {id(k) for k in some}
        self.sheets = [k for k in self.sheets if id(k) not in gone]
        for kept in some:
            self._note_lost(kept.name)
            self._remove(kept)
        self._view = None

    def give_up_passed(self, now_us: int, spans: Sequence[tuple[int, BitMap]]) -> None:
        """Drop the sheets that the windows of all their members have left behind. `spans`: the widest first, and whose."""
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
        """Nobody will ask for rows below a position again."""
        for kept in [k for k in self.sheets if k.end <= position]:
            self._remove(kept)
        self.sheets = [k for k in self.sheets if k.end > position]
        self.lost = [lost for lost in self.lost if lost.end > position]
        self._shares.forget_empty()
        self._view = None

    def merge(self, keep_from: dict[int, int] | None) -> None:
        """Make few lists of many, without what their queries do not reach any more, if that is said."""
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
        """Files that nobody needs any more, for whoever removes them."""
        unused, self._unused = self._unused, []
        return unused

    def _note_lost(self, name: BitMatrixRef) -> None:
        insort(self.lost, LostMatrix(name.first, name.end, name.members), key=_first)
        if len(self.lost) > MOST_LOST:
            # Saying that more queries miss more rows is safe: they look at rows that they know already.
            pairs = zip(self.lost[::2], self.lost[1::2], strict=False)
            rest = self.lost[-1:] if len(self.lost) % 2 else []
            # Sheets are lost in any order, so a later one may lie within what was made of two before.
            self.lost = [LostMatrix(a.first, max(a.end, b.end), a.members | b.members) for a, b in pairs] + rest

    def close(self) -> None:
        """The table is gone."""
        for kept in self.sheets:
            self._remove(kept)
        for path in self.take_files():
            path.unlink(missing_ok=True)


def _within_reach(lists: list[PositionLists]) -> list[list[PositionLists]]:
    """Lists by where they lie: as many together as one list has row numbers for."""
    groups: list[list[PositionLists]] = []
    for part in sorted(lists, key=lambda part: part.first):
        if groups and part.end - groups[-1][0].first < MOST_ROWS:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _to_merge(parts: list[PositionLists]) -> list[list[PositionLists]]:
    """The largest stays as it is while the others are small beside it: a position is merged log n times."""
    sizes = [len(p.offsets) for p in parts]
    large = int(np.argmax(sizes))
    if len(parts) > 1 and 2 * sizes[large] > sum(sizes) and len(parts) <= MOST_LISTS:
        return [[parts[large]], parts[:large] + parts[large + 1 :]]
    return [parts]


def _sheet_shares(sheet: BitMatrix) -> tuple[Ints, Ints]:
    """Bytes of a sheet by query."""
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
