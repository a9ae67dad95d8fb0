"""Merge old cells into wider ones: neighbours are merged while their weight is small beside all newer cells of their group.

That is the rule of an exponential histogram, for any partial that merges: whatever BEGIN is, only the one cell that it cuts is
uncertain, and it weighs at most `share` of what is inside. A group has about 2 / share * log(rows) cells.
"""

from __future__ import annotations

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.approximate.base import Approximate, Floats
from penstock.operators.aggregate.partials.base import Ints, Partial
from penstock.operators.aggregate.partials.cells import Cells


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


def join_cells(cells: Cells, partial: Partial, at: Ints, count: int) -> Cells:
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
