"""Cells of log ranges, for states without end: old ranges are merged, so that a group has few cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from penstock.operators.aggregate.approximate.brackets import together
from penstock.operators.aggregate.partials.base import Ints, Mergeable
from penstock.operators.aggregate.partials.cells import Cells, CellStore, no_cells

FINE = 8
"""So many of the newest pieces stay as they came: most questions are about the last cycle or the one before."""
_PER_LEVEL = 2

Connected = Callable[[int, int], bool]


class PieceStore(CellStore):
    """`start` and `width` of a cell are log positions; all cells of a piece have the same, one per group.

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
        return together(self._pieces) if self._pieces else no_cells(self.partial)

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
        cells = together(pieces)
        groups, at = np.unique(cells.groups, return_inverse=True)
        found = no_cells(self.partial, len(groups))
        self.partial.merge(found.state, at, cells.state)
        np.add.at(found.rows, at, cells.rows)
        lasts, firsts = np.zeros(len(groups), np.int64), np.full(len(groups), end)
        np.maximum.at(lasts, at, cells.lasts)
        np.minimum.at(firsts, at, cells.firsts)
        starts, widths = np.full(len(groups), start), np.full(len(groups), end - start)
        return Cells(starts, widths, groups, firsts, lasts, found.rows, found.state)


def _end(piece: Cells) -> int:
    return int(piece.starts[0] + piece.widths[0])
