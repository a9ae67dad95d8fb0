"""The store of an approximate measure: old cells are merged into wider ones.

`coarsened` merges neighbours while their weight is small beside all newer cells of their group. That is the rule of an
exponential histogram, for any partial that merges: whatever BEGIN is, only the one cell that it cuts is uncertain, and it
weighs at most `share` of what is inside. A group has about 2 / share * log(rows) cells. `laddered` merges in steps: seconds
become slots of 8 seconds, those of a minute, and so on. A merged bucket loses a little at every merge, so each row takes part
in few of them: a slot is made once, when it is closed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.approximate.base import Approximate, Floats
from penstock.operators.aggregate.approximate.within import Within
from penstock.operators.aggregate.partials.base import Ints, Partial
from penstock.operators.aggregate.partials.cells import Cells, CellStore, join_cells
from penstock.operators.aggregate.partials.tiles import TileStore

FEW = 256
STEPS_US: tuple[int, ...] = tuple(8**step * 1_000_000 for step in range(1, 7))
LONGEST_US = STEPS_US[-1]
"""Three days: for windows whose beginning stays where it is."""


def coarsened(cells: Cells, partial: Approximate) -> Cells:
    """The same rows in fewer cells."""
    ends = cells.starts + cells.widths
    order = np.lexsort((cells.starts, ends, cells.groups))
    weights = partial.weights(cells.state)[order]
    movable = ends[order] <= int(ends.max(initial=0)) - partial.coarseness.recent_us
    pane = partial.coarseness.pane_us
    if pane:
        slots = np.floor_divide(cells.starts, pane)
        movable &= (slots == np.floor_divide(ends - 1, pane))[order]
        labels = _same_slot(cells.groups[order], slots[order], movable)
    else:
        labels = _light_neighbours(cells.groups[order], weights, movable, partial.share)
    count = int(labels.max(initial=-1)) + 1
    at = np.empty(len(order), np.int64)
    at[order] = labels
    return join_cells(cells, partial, at, count)


def _same_slot(groups: Ints, slots: Ints, movable: np.ndarray) -> Ints:
    """Cells of one group and pane are one."""
    new = np.ones(len(groups), np.bool_)
    both = movable[1:] & movable[:-1]
    new[1:] = ~(both & (groups[1:] == groups[:-1]) & (slots[1:] == slots[:-1]))
    labels: Ints = np.cumsum(new) - 1
    return labels


@kernel
def _light_neighbours(groups: Ints, weights: Floats, movable: np.ndarray, share: float) -> Ints:
    """A number per cell, ascending from the last one back; those that are joined have the same."""
    count = len(groups)
    labels = np.empty(count, np.int64)
    label = -1
    newer, opened = 0.0, 0.0
    for i in range(count - 1, -1, -1):
        fresh = i == count - 1 or groups[i] != groups[i + 1]
        if fresh:
            newer, opened = 0.0, 0.0
        joins = not fresh and movable[i] and movable[i + 1]
        # Where the share is without a limit, weights do not matter.
        if joins and (np.isinf(share) or opened + weights[i] <= share * newer):
            opened += weights[i]
        else:
            newer += opened
            opened = weights[i]
            label += 1
        labels[i] = label
    return labels


def laddered(cells: Cells, partial: Within) -> Cells:
    """The same rows in fewer cells: those of one slot are one, in the widest slot that has passed and is not too wide."""
    ends = cells.starts + cells.widths
    closed_us = int(ends.max(initial=0)) - partial.asked.recent_us
    # Alone in a slot of its own, until one is found.
    slots = np.stack([cells.groups, np.zeros(len(cells), np.int64), np.arange(len(cells))])
    for step in STEPS_US:
        if step > partial.asked.top_us:
            break
        number = np.floor_divide(cells.starts, step)
        passed = (number + 1) * step
        inside = (ends <= passed) & (passed <= closed_us)
        slots[1:, inside] = np.stack([np.full(len(cells), step), number])[:, inside]
    found, at, counts = np.unique(slots, axis=1, return_inverse=True, return_counts=True)
    joined = join_cells(cells, partial, at.ravel(), found.shape[1])
    merged = np.flatnonzero(counts > 1)
    state = {name: field[merged] for name, field in joined.state.items()}
    partial.settle(state)
    for name in ("pairs", "bag"):
        joined.state[name][merged] = state[name]
    return joined


class CoarseCellStore(CellStore):
    """A cell store that merges old cells whenever there are `growth` times as many cells as after the last merge."""

    def __init__(self, partial: Partial, coarsen: Callable[[Cells], Cells], few: int, growth: float) -> None:
        super().__init__(partial)
        self._coarsen, self._few, self._growth = coarsen, few, growth
        self._room = float(few)

    def put(self, cells: Cells) -> None:
        super().put(cells)
        if len(self) > self._room:
            self._keep(self._coarsen(self.view()))
            self._room = self._growth * len(self) + self._few


def cell_store(partial: Partial, every_us: int = 0) -> CellStore | TileStore:
    """`every_us`: the width of the slots that a series keeps."""
    if isinstance(partial, Approximate):
        return CoarseCellStore(partial, lambda cells: coarsened(cells, partial), FEW, 2)
    if isinstance(partial, Within):
        # Its fine cells are large, so they are not left waiting.
        return CoarseCellStore(partial, lambda cells: laddered(cells, partial), FEW // 8, 1)
    return TileStore(partial, every_us)
