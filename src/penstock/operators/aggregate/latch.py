"""The state of a LATCH query: cells by log range, merged once no kept cycle distinguishes them.

A row counts for ever, whatever its time, so time is not cut. A cell's `start` and `width` are log positions here: the piece
of the log that a commit record covers. The answer at a cycle is the sum of the pieces below its head. Pieces below the head of
the oldest kept cycle become one cell per group, which outlives the rows: snapshots have it, so a restart does, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from penstock.expr.windows import FOREVER
from penstock.operators.aggregate import payload
from penstock.operators.aggregate.family import FamilyStore, MissingRows
from penstock.operators.aggregate.partials.cell_sums import CellRange, CombinedCells, combine
from penstock.operators.aggregate.partials.cells import Cells, CellStore, PieceStore
from penstock.operators.aggregate.shape import Measure
from penstock.operators.aggregate.slicer import SlicedFamily
from penstock.operators.base.ranges import Range, Ranges, outside

LOST: Ranges = ((-1, 0),)
"""Covered by a state that was given up: everything from the first row on is missing."""


class LatchFamily(FamilyStore):
    """The state of one LATCH query. `kept_from_us`: the time from which it has all rows; older ones were deleted before."""

    kept_from_us: int | None = None

    def new_cells(self, measure: Measure) -> CellStore:
        return PieceStore(measure.make())

    def missing(
        self, measures: tuple[Measure, ...], reach: int, look: CellRange
    ) -> list[tuple[MissingRows, list[Measure]]]:
        """Holes: log ranges that no record covers, because something failed."""
        found: dict[MissingRows, list[Measure]] = {}
        for measure in measures:
            covered = self.measures[measure].covered
            for first, end in outside(covered, covered[0][0], look.head) if covered else ():
                found.setdefault(MissingRows(max(first, 0), end), []).append(measure)
        return list(found.items())

    def put(self, measures: list[Measure], gap: MissingRows, parts: list[SlicedFamily]) -> None:
        pieces = [replace(part, cells=[_piece(cells, gap[:2]) for cells in part.cells]) for part in parts]
        super().put(measures, gap, pieces)

    def fold(self, told: payload.CellBatch) -> None:
        if told.about:  # a snapshot: its cells are pieces already
            self.kept_from_us = told.about["kept_from_us"]
        super().fold(told)

    def told_cells(self, told: payload.CellBatch, name: str, measure: Measure, numbers: np.ndarray) -> Cells:
        cells = super().told_cells(told, name, measure, numbers)
        return cells if told.about else _piece(cells, told.ranges[0])

    def about(self, measure: Measure) -> dict[str, int]:
        return {"kept_from_us": -FOREVER if self.kept_from_us is None else self.kept_from_us}

    def sum_below(self, measure: Measure, head: int) -> tuple[CombinedCells, int]:
        """The sum of the pieces below a head, and from which position rows must be read, where a piece continues past it."""
        store = self.measures[measure].cells
        cells = store.view()
        ends = cells.starts + cells.widths
        cut = (cells.starts < head) & (ends > head)
        return combine(cells.take(ends <= head), store.partial, None), int(cells.starts[cut].min(initial=head))

    def merge_below(self, head: int) -> None:
        """Make one cell per group of all pieces below a head, and fewer of those above it.

        An answer as of an older cycle may have to read the rows of the piece in which it lies; a piece per cycle would take a
        thousand cells a group.
        """
        for known in self.measures.values():
            assert isinstance(known.cells, PieceStore)
            known.cells.merge_below(head)
            known.cells.coarsen(partial(_connected, known.covered))

    def give_up(self, measure: Measure) -> None:
        """Forget a measure's state. It can be computed again only if the log still has all rows."""
        super().give_up(measure)
        self.measures[measure].covered = LOST

    def doubt(self, measure: Measure) -> None:
        """Nothing to do: rows of a failed cycle are in no record, and so they are a hole already."""


def _connected(covered: Ranges, first: int, end: int) -> bool:
    return not outside(covered, first, end)


def _piece(cells: Cells, span: Range) -> Cells:
    """The same cells as of one piece of the log: those of a group are one when they are put."""
    first, end = span
    return replace(cells, starts=np.full(len(cells), first), widths=np.full(len(cells), end - first))
