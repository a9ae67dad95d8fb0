"""Pieces of the log: whatever was merged, the sum below a head is the same, and pieces stay few."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.operators.aggregate.partials.cells import FINE, Cells, PieceStore
from penstock.operators.aggregate.partials.registry import make_partial
from penstock.types import DOUBLE


@pytest.mark.parametrize("seed", range(8))
def test_sums_below_kept_heads_stay_what_they_were(seed: int) -> None:
    chance = random.Random(seed)
    partial = make_partial("total", (DOUBLE,))
    store, rows, heads, gaps = PieceStore(partial), [], [0], []
    order = []
    for _ in range(300):
        first = heads[-1]
        end = first + chance.randint(0, 5)
        order.append((first, end))
        heads.append(end)
    if seed % 2:  # one piece is never told: nothing is merged over it
        gaps = [order.pop(chance.randrange(250))]
    for number, (first, end) in enumerate(order):
        groups = [chance.randint(0, 3) for _ in range(first, end)]
        rows += [(first + i, group) for i, group in enumerate(groups)]
        if groups:
            store.put(piece(first, end, groups, partial))
        if number % 20 == 19:
            oldest = heads[max(0, number - 150)]
            store.merge_below(oldest)
            store.coarsen(lambda a, b: not any(a <= g[0] < b for g in gaps if g[0] < g[1]))
            check(store, rows, end, oldest)
    spans = {(int(s), int(w)) for s, w in zip(store.view().starts, store.view().widths, strict=True)}
    assert len(spans) <= FINE + 40
    assert store.kept == 0 and store.nbytes > 0 and len(store) == len(store.view())


def piece(first: int, end: int, groups: list[int], partial: object) -> Cells:
    count = len(groups)
    positions = np.arange(first, end)
    values = positions.astype(np.float64)
    state = {"count": np.ones(count, np.int64), "high": values, "low": np.zeros(count)}
    ones = np.ones(count, np.int64)
    return Cells(
        np.full(count, first), np.full(count, end - first), np.array(groups), positions, positions, ones, state
    )


def check(store: PieceStore, rows: list[tuple[int, int]], head: int, oldest: int) -> None:
    """Every head at which no piece is cut has its sum, and the newest few heads are such."""
    cells = store.view()
    ends = cells.starts + cells.widths
    for at in range(oldest, head + 1):
        if ((cells.starts < at) & (ends > at)).any():
            continue
        below = ends <= at
        for group in range(4):
            mine = below & (cells.groups == group)
            expected = [position for position, g in rows if g == group and position < at]
            assert cells.state["high"][mine].sum() == sum(expected)
            assert cells.rows[mine].sum() == len(expected)
