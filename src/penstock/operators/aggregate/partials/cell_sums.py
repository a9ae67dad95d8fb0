"""Which cells lie wholly inside a window, what has to be read row by row, and the sum of it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.operators.aggregate.partials.base import Ints, Mergeable, State
from penstock.operators.aggregate.partials.cells import Cells


@dataclass(frozen=True, slots=True)
class CellRange:
    """The range of an answer: ts in [low, high], log positions in [floor, head), and panes that no cell may straddle."""

    low: int
    high: int
    floor: int
    head: int
    pane: int | None = None


@dataclass(frozen=True, slots=True)
class UncoveredRows:
    """Rows that whole cells do not cover: with ts in one of these half-open periods, inside the position ranges."""

    periods: tuple[tuple[int, int], ...]
    positions: tuple[tuple[int, int], ...]


def choose_cells(cells: Cells, look: CellRange, doubtful: np.ndarray | None = None) -> tuple[np.ndarray, UncoveredRows]:
    """Which cells count as a whole, and which rows of the log have to be read besides.

    `doubtful` are cells of which not every row may count, whatever the look says of them.
    A cell that reaches over an edge of the window or of the log is not used, nor is any other of that time: the rows of
    such a time are read, all of them.
    """
    ends = cells.starts + cells.widths
    seen = (ends > look.low) & (cells.starts <= look.high) & (cells.lasts >= look.floor) & (cells.firsts < look.head)
    whole = (cells.starts >= look.low) & (ends - 1 <= look.high)
    whole &= (cells.firsts >= look.floor) & (cells.lasts < look.head)
    if look.pane is not None:
        whole &= np.floor_divide(cells.starts, look.pane) == np.floor_divide(ends - 1, look.pane)
    if doubtful is not None:
        whole &= ~doubtful
    cut = seen & ~whole
    periods: tuple[tuple[int, int], ...] = ()
    while cut.any():
        found = joined(cells.starts[cut], ends[cut])
        if found == periods:
            break
        periods = found
        # Slices of different widths may overlap: what shares its time with a row that is read must not count, too.
        lows, highs = np.array([p[0] for p in periods]), np.array([p[1] for p in periods])
        at = np.searchsorted(lows, ends - 1, side="right") - 1
        cut = seen & (at >= 0) & (highs[np.maximum(at, 0)] > cells.starts)
    positions = joined(np.maximum(cells.firsts[cut], look.floor), np.minimum(cells.lasts[cut] + 1, look.head))
    return seen & ~cut, UncoveredRows(periods, positions)


def joined(lows: Ints, highs: Ints) -> tuple[tuple[int, int], ...]:
    """Half-open ranges without overlaps, ascending."""
    found: list[tuple[int, int]] = []
    order = np.argsort(lows, kind="stable")
    for low, high in zip(lows[order].tolist(), highs[order].tolist(), strict=True):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Panes:
    """TUMBLE and SLIDE: windows [k * step, k * step + width) for every k."""

    width: int
    step: int

    def of(self, starts: Ints) -> tuple[Ints, Ints]:
        """Which cells (as indices) are in which windows (by their start)."""
        last = np.floor_divide(starts, self.step) * self.step
        places, windows = [], []
        for back in range(-(-self.width // self.step)):
            start = last - back * self.step
            inside = np.flatnonzero(starts < start + self.width)
            places.append(inside)
            windows.append(start[inside])
        return np.concatenate(places), np.concatenate(windows)


@dataclass(frozen=True, slots=True)
class CombinedCells:
    """One line per (window, group): window is 0 where there are no panes."""

    windows: Ints
    groups: Ints
    state: State


def combine(cells: Cells, partial: Mergeable, panes: Panes | None) -> CombinedCells:
    """Add cells up per window and group, in the order of both."""
    if panes is None:
        return _added_up(np.zeros(len(cells), np.int64), cells.groups, cells.state, partial)
    chosen, windows = panes.of(cells.starts)
    return _added_up(windows, cells.groups[chosen], {n: a[chosen] for n, a in cells.state.items()}, partial)


def merge_combined(parts: Sequence[CombinedCells], partial: Mergeable) -> CombinedCells:
    """The same over all rows of the parts."""
    windows, groups = (np.concatenate([getattr(p, n) for p in parts]) for n in ("windows", "groups"))
    state = {n: np.concatenate([p.state[n] for p in parts]) for n in partial.fields()}
    return _added_up(windows, groups, state, partial)


def _added_up(windows: Ints, groups: Ints, state: State, partial: Mergeable) -> CombinedCells:
    order = np.lexsort((groups, windows))
    windows, groups = windows[order], groups[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(windows) != 0) | (np.diff(groups) != 0)
    total = partial.empty(int(new.sum()))
    partial.merge(total, np.cumsum(new) - 1, {n: a[order] for n, a in state.items()})
    return CombinedCells(windows[new], groups[new], total)
