"""Bounds of an approximate partial over a window without reading rows, and the groups for which rows must be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from penstock.operators.aggregate.approximate.base import Approximate
from penstock.operators.aggregate.partials.base import Ints, Partial
from penstock.operators.aggregate.partials.cell_sums import (
    CellRange,
    CombinedCells,
    Panes,
    UncoveredRows,
    choose_cells,
    combine,
)
from penstock.operators.aggregate.partials.cells import Cells, concat_cells, no_cells

NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class CellSum:
    """Lines from cells, and the rows that have to be read besides: of all groups but some, or (`only`) of some."""

    lines: Callable[[], CombinedCells]  # called without the store's lock: to add up millions of cells takes its time
    rest: UncoveredRows
    groups: Ints
    only: bool = False
    keeps_rows: bool = False  # the rest are slots that the window cuts: later answers need their rows, too

    def of_these(self, groups: Ints) -> np.ndarray:
        """Whether rows of these groups, read from the rest, belong here."""
        return np.isin(groups, self.groups, invert=not self.only)


def unsliced(partial: Partial, look: CellRange, panes: Panes | None) -> CellSum:
    """The sum of a measure without cells: all of its rows have to be read."""
    rest = (
        UncoveredRows(((look.low, look.high + 1),), ((look.floor, look.head),))
        if look.floor < look.head
        else UncoveredRows((), ())
    )
    return CellSum(lambda: combine(no_cells(partial), partial, panes), rest, NONE)


def look_approximately(cells: Cells, partial: Approximate, look: CellRange, panes: Panes | None) -> list[CellSum]:
    """Count cells that only BEGIN cuts with bounds; for groups that would break their guaranteed error, rows are read."""
    ends = cells.starts + cells.widths
    bridged = (cells.starts < look.low) & (ends > look.low) & (ends - 1 <= look.high)
    bridged &= (cells.firsts >= look.floor) & (cells.lasts < look.head)
    if look.pane is not None:
        bridged &= np.floor_divide(cells.starts, look.pane) == np.floor_divide(ends - 1, look.pane)
    others = cells.take(~bridged)
    chosen, rest = choose_cells(others, look)
    # A cell whose newest row is too old has nothing inside.
    cut = cells.take(bridged & (cells.state["newest"] >= look.low))
    # What shares its time with rows that are read would count twice.
    bad = np.unique(cut.groups[_touches(cut, rest)])
    cut = cut.take(~np.isin(cut.groups, bad))
    within = replace(cut, state=partial.restricted(cut.state, look.low))
    lines = combine(concat_cells([others.take(chosen), within]), partial, panes)
    bad = np.union1d(bad, lines.groups[~partial.within(lines.state)])
    if not len(bad):
        return [CellSum(lambda: lines, rest, NONE)]
    kept = ~np.isin(lines.groups, bad)
    good_lines = CombinedCells(lines.windows[kept], lines.groups[kept], {n: a[kept] for n, a in lines.state.items()})
    mine = cells.take(np.isin(cells.groups, bad))
    chosen, more = choose_cells(mine, look)
    exact = combine(mine.take(chosen), partial, panes)
    return [CellSum(lambda: good_lines, rest, bad), CellSum(lambda: exact, more, bad, only=True)]


def _touches(cells: Cells, rest: UncoveredRows) -> np.ndarray:
    found = np.zeros(len(cells), np.bool_)
    for low, high in rest.periods:
        found |= (cells.starts < high) & (cells.starts + cells.widths > low)
    return found
