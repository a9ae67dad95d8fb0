"""The cells of one join's results, of one generation. Every result that was taken in is in exactly one cell.

A result is taken in once a window has reached its latest time. Until then it waits, so that cells need not be cut by that time:
for most answers a cell's content has been reached as a whole, and where it has not, the cell's marks show it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.expr.windows import FOREVER
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.over_joins.slices import SLICE_US, SlicedResults, partial_of
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.cell_sums import (
    CellRange,
    CombinedCells,
    UncoveredRows,
    choose_cells,
    combine,
)
from penstock.operators.aggregate.partials.cells import CellStore
from penstock.operators.aggregate.partials.composite import LATEST, oldest
from penstock.sql.plan import AggregatePlan


@dataclass(frozen=True, slots=True)
class ResultRange:
    """The results that an answer counts: inside [low, high], with a number below `count` and with tuples still in the log."""

    low: int
    high: int
    count: int
    floors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DueResults:
    """Numbers of results that have to be added, and how often the family had been emptied by then."""

    numbers: Ints
    emptied: int


class ResultsFamily:
    """The cells of a join's results. Called under the store's lock.

    A thread that adds results holds `slicing`, so that no result is added twice.
    """

    def __init__(self, query_id: int, top: AggregatePlan, inputs: int) -> None:
        self.users = {query_id}
        self.slicing = threading.Lock()
        self.top = top
        self.partial = partial_of(top, inputs)
        self._inputs = inputs
        self._emptied = 0
        self.empty()

    def empty(self) -> None:
        """Forget everything; the next answer takes all results in again."""
        self._emptied += 1
        self.groups = Groups.by(self.top.keys)
        self.cells = CellStore(self.partial)
        self._upto = 0  # results below this are in cells or wait
        self._waiting = np.empty(0, np.int64)  # those of them that were not reached yet
        self._ends = np.empty(0, np.int64)  # and their latest times
        self._from = -FOREVER  # results of older times were forgotten

    @property
    def nbytes(self) -> int:
        return self.groups.nbytes + self.cells.nbytes + 2 * self._waiting.nbytes

    @property
    def waiting(self) -> int:
        """How many results no window has reached."""
        return len(self._waiting)

    # -- taking results in

    def due(self, look: ResultRange, most: int) -> DueResults | None:
        """Some results that a look needs and no cell has: new ones, or ones that the window has reached; None for none."""
        if look.low < self._from:
            self.empty()  # a window was made wider
        reached = self._waiting[self._ends <= look.high][:most]
        if len(reached):
            return DueResults(reached, self._emptied)
        if self._upto < look.count:
            return DueResults(np.arange(self._upto, min(look.count, self._upto + most)), self._emptied)
        return None

    def take(self, due: DueResults, sliced: Sequence[SlicedResults], waiting: Ints, ends: Ints) -> None:
        """Add the cells of results that were due, and those that have to wait; ignored if the family was emptied meanwhile."""
        if due.emptied != self._emptied:
            return
        stays = ~np.isin(self._waiting, due.numbers, assume_unique=True)
        self._waiting = np.concatenate([self._waiting[stays], waiting])
        self._ends = np.concatenate([self._ends[stays], ends])
        self._upto = max(self._upto, int(due.numbers[-1]) + 1)
        for piece in sliced:
            numbers = self.groups.number(piece.keys)
            self.cells.put(replace(piece.cells, groups=numbers[piece.cells.groups]))

    # -- looking

    def look(self, look: ResultRange) -> tuple[CombinedCells, UncoveredRows]:
        """The sum of the cells, and the earliest times and numbers of the results that have to be read besides."""
        cells = self.cells.view()
        marks = self.partial.part(cells.state, len(self.partial.parts) - 1)
        doubtful = marks[LATEST] > look.high
        for place in range(self._inputs):
            doubtful |= marks[oldest(place)] < look.floors[place]
        cut_by_time = replace(cells, widths=np.full(len(cells), SLICE_US))
        chosen, rest = choose_cells(cut_by_time, CellRange(look.low, FOREVER, 0, look.count), doubtful)
        return self.combined(SlicedResults([], cells.take(chosen)), self.groups), rest

    def combined(self, sliced: SlicedResults, groups: Groups) -> CombinedCells:
        """Cells added up; with keys they have numbers of their own."""
        cells = sliced.cells
        if sliced.keys:
            cells = replace(cells, groups=groups.number(sliced.keys)[cells.groups])
        return combine(replace(cells, starts=cells.widths), self.partial, self.top.panes)

    # -- forgetting

    def forget_before(self, low: int) -> None:
        """No window reaches results before a time again, unless it is made wider."""
        self._from = max(self._from, low)
        self.cells.keep(self.cells.view().starts + SLICE_US > low)
        left = self.groups.without_unused(self.cells.used_groups())
        if left is not None:
            self.groups, numbers = left
            self.cells.renumber(numbers)
