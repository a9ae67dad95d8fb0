"""Cells: partials per (slice, group), made from rows, and the store that folds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.operators.aggregate.partials.base import Ints, Mergeable, State


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

    def take(self, chosen: np.ndarray | slice) -> Cells:
        return Cells(
            self.starts[chosen],
            self.widths[chosen],
            self.groups[chosen],
            self.firsts[chosen],
            self.lasts[chosen],
            self.rows[chosen],
            {n: a[chosen] for n, a in self.state.items()},
        )


def no_cells(partial: Mergeable, count: int = 0) -> Cells:
    starts, widths, groups, firsts, lasts, rows = (np.zeros(count, np.int64) for _ in range(6))
    return Cells(starts, widths, groups, firsts, lasts, rows, partial.empty(count))


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
            self._grow(self._count + len(fresh))
            end = self._count + len(fresh)
            mine, chosen = self._cells, np.array(fresh)
            for own, new in ((mine.starts, cells.starts), (mine.widths, cells.widths), (mine.groups, cells.groups)):
                own[self._count : end] = new[chosen]
            mine.firsts[self._count : end] = cells.firsts[chosen]
            mine.lasts[self._count : end] = cells.lasts[chosen]
            self._count = end
        return at

    def _grow(self, count: int) -> None:
        if count > len(self._cells.starts):
            self._cells = _extended(self._cells, max(count, 2 * self._count, 64), self.partial)

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


def _extended(cells: Cells, count: int, partial: Mergeable) -> Cells:
    more = no_cells(partial, count - len(cells.starts))
    return Cells(
        np.concatenate([cells.starts, more.starts]),
        np.concatenate([cells.widths, more.widths]),
        np.concatenate([cells.groups, more.groups]),
        np.concatenate([cells.firsts, more.firsts]),
        np.concatenate([cells.lasts, more.lasts]),
        np.concatenate([cells.rows, more.rows]),
        {n: np.concatenate([a, more.state[n]]) for n, a in cells.state.items()},
    )
