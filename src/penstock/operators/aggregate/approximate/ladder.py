"""Cells that grow wide with age in steps: seconds become slots of 8 seconds, those of a minute, and so on.

A merged bucket loses a little at every merge, so each row takes part in few of them: a slot is made once, when it is closed.
"""

from __future__ import annotations

import numpy as np

from penstock.operators.aggregate.approximate.coarse_cells import join_cells
from penstock.operators.aggregate.approximate.within import Within
from penstock.operators.aggregate.partials.cells import Cells

STEPS_US: tuple[int, ...] = tuple(8**step * 1_000_000 for step in range(1, 7))
LONGEST_US = STEPS_US[-1]
"""Three days: for windows whose beginning stays where it is."""


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
