"""Which cells lie wholly inside a window, what has to be read row by row, and the sum of it all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from penstock.operators.aggregate.partials.base import Ints, Mergeable, Numbers, State
from penstock.operators.aggregate.partials.cells import Cells

BLOCK_CELLS = 1 << 17
"""So many cells are added up at a time."""
Summands = tuple[Numbers, State]
"""The groups of cells, and their state: whatever types the columns have, they have the numbers of the partial's fields."""


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


@dataclass(slots=True, eq=False)
class Slots:
    """Slots or cells: when they are and where their rows lie in the log; which of them a look sees, and which it cannot use."""

    starts: Ints
    ends: Ints
    firsts: Ints
    lasts: Ints
    seen: np.ndarray
    cut: np.ndarray

    @staticmethod
    def seen_by(look: CellRange, starts: Ints, widths: Ints | int, firsts: Ints, lasts: Ints) -> Slots:
        ends = starts + widths
        seen = (ends > look.low) & (starts <= look.high) & (lasts >= look.floor) & (firsts < look.head)
        whole = (starts >= look.low) & (ends - 1 <= look.high) & (firsts >= look.floor) & (lasts < look.head)
        if look.pane is not None:
            whole &= np.floor_divide(starts, look.pane) == np.floor_divide(ends - 1, look.pane)
        return Slots(starts, ends, firsts, lasts, seen, seen & ~whole)

    @property
    def chosen(self) -> np.ndarray:
        """Those that count as a whole."""
        whole: np.ndarray = self.seen & ~self.cut
        return whole


def uncovered(slots: Sequence[Slots], look: CellRange) -> UncoveredRows:
    """The rows of the log that have to be read beside the slots that are chosen; some are cut for that.

    A slot that reaches over an edge of the window or of the log is not used, nor is any other of that time: the rows of
    such a time are read, all of them.
    """
    periods: tuple[tuple[int, int], ...] = ()
    while True:
        cut = [(each.starts[each.cut], each.ends[each.cut]) for each in slots]
        found = joined(*(np.concatenate(edges) for edges in zip(*cut, strict=True)))
        if found == periods:
            break
        periods = found
        # Slices of different widths may overlap: what shares its time with a row that is read must not count, too.
        lows, highs = np.array([p[0] for p in periods]), np.array([p[1] for p in periods])
        for each in slots:
            at = np.searchsorted(lows, each.ends - 1, side="right") - 1
            each.cut = each.seen & (at >= 0) & (highs[np.maximum(at, 0)] > each.starts)
    firsts = [np.maximum(each.firsts[each.cut], look.floor) for each in slots]
    ends = [np.minimum(each.lasts[each.cut] + 1, look.head) for each in slots]
    return UncoveredRows(periods, joined(np.concatenate(firsts), np.concatenate(ends)))


def choose_cells(cells: Cells, look: CellRange, doubtful: np.ndarray | None = None) -> tuple[np.ndarray, UncoveredRows]:
    """Which cells count as a whole, and which rows of the log have to be read besides.

    `doubtful` are cells of which not every row may count, whatever the look says of them.
    """
    slots = Slots.seen_by(look, cells.starts, cells.widths, cells.firsts, cells.lasts)
    if doubtful is not None:
        slots.cut |= slots.seen & doubtful
    rest = uncovered([slots], look)
    return slots.chosen, rest


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

    @property
    def pane(self) -> int:
        """The longest time of which every window has all or nothing."""
        return math.gcd(self.width, self.step)

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


def add_up(parts: Iterable[Summands], partial: Mergeable) -> CombinedCells:
    """Add cells up per group. Of millions some at a time: side by side they would take much memory, and time for that."""
    known, total = np.zeros(0, np.bool_), partial.empty(0)
    for groups, state in _blocks(parts, partial):
        if not len(known) and len(groups) < BLOCK_CELLS:
            return _added_up(np.zeros(len(groups), np.int64), groups, state, partial)  # there are no others
        more = int(groups.max(initial=-1)) + 1 - len(known)
        if more > 0:
            more = max(more, len(known))
            known = np.append(known, np.zeros(more, np.bool_))
            total = {n: np.concatenate([total[n], column]) for n, column in partial.empty(more).items()}
        known[groups] = True
        partial.merge(total, groups, state)
    used = np.flatnonzero(known)
    return CombinedCells(np.zeros(len(used), np.int64), used, {n: column[used] for n, column in total.items()})


def _blocks(parts: Iterable[Summands], partial: Mergeable) -> Iterator[Summands]:
    """The parts in blocks of at least so many cells; the last one, which may be the only one, can have fewer."""
    block: list[Summands] = []
    left = BLOCK_CELLS
    for groups, state in chain(parts, [(np.empty(0, np.int64), partial.empty(0))]):
        block.append((groups, state))
        left -= len(groups)
        if left <= 0:
            yield _joined(block, partial)
            block, left = [], BLOCK_CELLS
    if block:
        yield _joined(block, partial)


def _joined(block: Sequence[Summands], partial: Mergeable) -> Summands:
    state = {
        name: np.concatenate([state[name] for _, state in block], dtype=dtype)
        for name, (dtype, _) in partial.fields().items()
    }
    return np.concatenate([groups for groups, _ in block], dtype=np.int64), state


def merge_combined(parts: Sequence[CombinedCells], partial: Mergeable) -> CombinedCells:
    """The same over all rows of the parts."""
    windows, groups = (np.concatenate([getattr(p, n) for p in parts]) for n in ("windows", "groups"))
    state = {n: np.concatenate([p.state[n] for p in parts]) for n in partial.fields()}
    return _added_up(windows, groups, state, partial)


def _added_up(windows: Ints, groups: Ints, state: State, partial: Mergeable) -> CombinedCells:
    lowest = int(windows[0]) if len(windows) else 0
    if len(windows) and (windows == lowest).all() and (span := int(groups.max()) + 1) <= 4 * len(groups) + 1024:
        # One window and few groups: no order has to be found.
        known = np.zeros(span, np.bool_)
        known[groups] = True
        used = np.flatnonzero(known)
        total = partial.empty(len(used))
        partial.merge(total, (np.cumsum(known) - 1)[groups], state)
        return CombinedCells(np.full(len(used), lowest), used, total)
    order = np.lexsort((groups, windows))
    windows, groups = windows[order], groups[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(windows) != 0) | (np.diff(groups) != 0)
    total = partial.empty(int(new.sum()))
    partial.merge(total, np.cumsum(new) - 1, {n: a[order] for n, a in state.items()})
    return CombinedCells(windows[new], groups[new], total)
