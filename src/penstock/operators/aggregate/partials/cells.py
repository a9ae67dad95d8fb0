"""Cells: partials per (slice, group), made from rows, and the stores that fold them: by time, or by log position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.operators.aggregate.partials.base import Ints, Mergeable, Numbers, State

FINE = 8
"""So many of the newest pieces stay as they came: most questions are about the last cycle or the one before."""
_PER_LEVEL = 2
Connected = Callable[[int, int], bool]


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells as columns: each has rows of one group with ts in [start, start + width), at log positions [first, last]."""

    starts: Ints
    widths: Ints
    groups: Ints
    firsts: Ints
    lasts: Ints
    rows: Ints
    state: State

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> Ints:
        return self.starts + self.widths

    @property
    def columns(self) -> tuple[Ints, ...]:
        """All but the state, in the order of the fields."""
        return self.starts, self.widths, self.groups, self.firsts, self.lasts, self.rows

    def take(self, chosen: np.ndarray | slice) -> Cells:
        return _each_column(lambda column: column[chosen], self)


def concat_cells(parts: Sequence[Cells]) -> Cells:
    """All cells of several."""
    return _each_column(lambda *columns: np.concatenate(columns), *parts)


def _each_column(change: Callable[..., Numbers], *cells: Cells) -> Cells:
    """Cells of which every column is made from the same column of others."""
    starts, widths, groups, firsts, lasts, rows = map(change, *(each.columns for each in cells))
    state = {name: change(*(each.state[name] for each in cells)) for name in cells[0].state}
    return Cells(starts, widths, groups, firsts, lasts, rows, state)


def distinct_groups(parts: Iterable[Numbers]) -> Ints:
    """All groups of several arrays, ascending; no array is sorted, because there may be millions of cells."""
    found = np.zeros(0, np.bool_)
    for groups in parts:
        most = int(groups.max(initial=-1)) + 1
        if most > len(found):
            found = np.append(found, np.zeros(most - len(found), np.bool_))
        found[groups] = True
    return np.flatnonzero(found)


def no_cells(partial: Mergeable, count: int = 0) -> Cells:
    starts, widths, groups, firsts, lasts, rows = (np.zeros(count, np.int64) for _ in range(6))
    return Cells(starts, widths, groups, firsts, lasts, rows, partial.empty(count))


def join_cells(cells: Cells, partial: Mergeable, at: Ints, count: int) -> Cells:
    """Cell i becomes part of cell at[i] of `count`; none of those is of two groups."""
    ends = cells.starts + cells.widths
    starts, new_ends = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    firsts, lasts = starts.copy(), new_ends.copy()
    groups, rows = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.minimum.at(starts, at, cells.starts)
    np.maximum.at(new_ends, at, ends)
    np.minimum.at(firsts, at, cells.firsts)
    np.maximum.at(lasts, at, cells.lasts)
    np.add.at(rows, at, cells.rows)
    groups[at] = cells.groups
    state = partial.empty(count)
    partial.merge(state, at, cells.state)
    return Cells(starts, new_ends - starts, groups, firsts, lasts, rows, state)


class CellStore:
    """The cells of one argument: every row that was folded in is in exactly one of them."""

    def __init__(self, partial: Mergeable) -> None:
        self.partial = partial
        self._count = 0
        self._cells = no_cells(partial)
        self._places: dict[tuple[int, int, int], int] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        # A place in the dictionary takes about as much as three numbers and their tuple.
        return 6 * self._cells.starts.nbytes + self.partial.nbytes(self._cells.state) + 200 * self._count

    @property
    def kept(self) -> int:
        """How many values its partial keeps one by one."""
        return self.partial.kept(self._cells.state)

    def view(self) -> Cells:
        """The cells as they are now; good until the next `put`."""
        return self._cells.take(slice(self._count))

    def used_groups(self) -> Ints:
        return distinct_groups([self.view().groups])

    def put(self, cells: Cells) -> None:
        """Fold in cells of other rows."""
        if not len(cells):
            return
        at = self._find(cells)
        mine = self._cells
        np.minimum.at(mine.firsts, at, cells.firsts)
        np.maximum.at(mine.lasts, at, cells.lasts)
        np.add.at(mine.rows, at, cells.rows)
        self.partial.merge(mine.state, at, cells.state)

    def _find(self, cells: Cells) -> Ints:
        """The place of each cell; new cells get new places."""
        places, at = self._places, np.empty(len(cells), np.int64)
        fresh: list[int] = []
        keys = zip(cells.starts.tolist(), cells.widths.tolist(), cells.groups.tolist(), strict=True)
        for i, key in enumerate(keys):
            place = places.get(key)
            if place is None:
                place = places[key] = self._count + len(fresh)
                fresh.append(i)
            at[i] = place
        if fresh:
            end = self._count + len(fresh)
            if end > len(self._cells):
                more = max(end, 2 * self._count, 64) - len(self._cells)
                self._cells = concat_cells([self._cells, no_cells(self.partial, more)])
            mine, chosen = self._cells, np.array(fresh)
            for own, new in zip(mine.columns[:-1], cells.columns[:-1], strict=True):
                own[self._count : end] = new[chosen]
            self._count = end
        return at

    def forget_below(self, position: int) -> int:
        """Drop cells with rows below a position only; returns the position below which nothing is left.

        A cell with rows on both sides stays, and with it everything down to its first row.
        """
        cells = self.view()
        while True:
            kept = cells.lasts >= position
            lowest = int(cells.firsts[kept].min(initial=position))
            if lowest >= position:
                break
            position = lowest
        if not kept.all():
            self._keep(cells.take(kept))
        return position

    def keep(self, kept: np.ndarray) -> None:
        """Drop all other cells."""
        if not kept.all():
            self._keep(self.view().take(kept))

    def renumber(self, numbers: Ints) -> None:
        """Group g is number numbers[g] from now on."""
        cells = self.view()
        self._keep(replace(cells, groups=numbers[cells.groups]))

    def _keep(self, cells: Cells) -> None:
        self._cells, self._count = cells, len(cells)
        keys = zip(cells.starts.tolist(), cells.widths.tolist(), cells.groups.tolist(), strict=True)
        self._places = {key: i for i, key in enumerate(keys)}


class PieceStore(CellStore):
    """Cells of log ranges, for states without end: old ranges are merged, so that a group has few cells.

    `start` and `width` of a cell are log positions; all cells of a piece have the same, one per group.
    A piece stands for all rows between its ends. Beyond the newest few, two neighbours of a level become one of the next:
    the number of pieces grows with the logarithm of what came.
    """

    def __init__(self, partial: Mergeable) -> None:
        super().__init__(partial)
        self._pieces: list[Cells] = []  # ascending
        self._levels: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def nbytes(self) -> int:
        return sum(6 * piece.starts.nbytes + self.partial.nbytes(piece.state) for piece in self._pieces)

    @property
    def kept(self) -> int:
        return sum(self.partial.kept(piece.state) for piece in self._pieces)

    def view(self) -> Cells:
        return concat_cells(self._pieces) if self._pieces else no_cells(self.partial)

    def put(self, cells: Cells) -> None:
        """Take in pieces of other rows."""
        for start in np.unique(cells.starts).tolist():
            same = cells.take(cells.starts == start)
            self._pieces.append(self._summed([same], start, int(same.starts[0] + same.widths[0])))
            self._levels.append(0)
        order = sorted(range(len(self._pieces)), key=lambda i: int(self._pieces[i].starts[0]))
        self._pieces, self._levels = [self._pieces[i] for i in order], [self._levels[i] for i in order]

    def renumber(self, numbers: Ints) -> None:
        self._pieces = [replace(piece, groups=numbers[piece.groups]) for piece in self._pieces]

    def merge_below(self, position: int) -> None:
        """Make one of all pieces that end there or before."""
        count = sum(_end(piece) <= position for piece in self._pieces)
        if count > 1 and all(_end(piece) <= position for piece in self._pieces[:count]):
            self._merge(0, count, 0)

    def coarsen(self, connected: Connected) -> None:
        """Join neighbours among the older pieces, if all rows between their ends are in them."""
        level = 0
        while level <= max(self._levels, default=0):
            old = len(self._pieces) - FINE
            mine = [i for i in range(1, old) if self._levels[i] == level]  # the first one only grows by `merge_below`
            if len(mine) <= _PER_LEVEL:
                level += 1
                continue
            pairs = [i for i in mine if i + 1 in mine and self._joinable(i, connected)]
            if not pairs:
                level += 1
                continue
            self._merge(pairs[0], pairs[0] + 2, level + 1)

    def _joinable(self, at: int, connected: Connected) -> bool:
        return connected(_end(self._pieces[at]), int(self._pieces[at + 1].starts[0]))

    def _merge(self, first: int, end: int, level: int) -> None:
        pieces = self._pieces[first:end]
        merged = self._summed(pieces, int(pieces[0].starts[0]), max(map(_end, pieces)))
        self._pieces[first:end], self._levels[first:end] = [merged], [level]

    def _summed(self, pieces: list[Cells], start: int, end: int) -> Cells:
        """One cell per group."""
        cells = concat_cells(pieces)
        groups, at = np.unique(cells.groups, return_inverse=True)
        starts, widths = np.full(len(groups), start), np.full(len(groups), end - start)
        return replace(join_cells(cells, self.partial, at, len(groups)), starts=starts, widths=widths)


def _end(piece: Cells) -> int:
    return int(piece.starts[0] + piece.widths[0])
