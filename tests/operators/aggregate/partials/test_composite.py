"""Partials side by side: cells that are merged say the same as rows that were added, whatever the split."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.aggregate.partials.cells import CellStore
from penstock.operators.aggregate.partials.composite import LATEST, CompositePartial, Marks, oldest
from penstock.operators.aggregate.partials.slices import slice_rows
from penstock.operators.aggregate.partials.sums import Count, Total
from penstock.operators.aggregate.partials.value_lists import Distinct
from penstock.types import BIGINT, DOUBLE


@pytest.mark.parametrize("seed", range(20))
def test_cells_in_any_pieces_say_what_their_rows_say(seed: int) -> None:
    chance = random.Random(seed)
    rows = [(chance.randint(0, 40), chance.randint(0, 2), chance.choice([None, 0.5, 2.0, -1.0])) for _ in range(60)]
    store = CellStore(CompositePartial([Count(()), Total((DOUBLE,)), Distinct((DOUBLE,)), Marks(2)]))
    together = store.partial
    assert isinstance(together, CompositePartial)
    at = 0
    while at < len(rows):
        piece = rows[at : at + chance.choice([1, 7, 30])]
        numbers = np.arange(at, at + len(piece))
        times, groups = (np.array([row[i] for row in piece]) for i in (0, 1))
        values = pa.array([row[2] for row in piece], pa.float64())
        sliced = slice_rows(times, numbers, groups, 10)
        arguments = ([], [values], [values], [pa.array(times + 5), pa.array(numbers), pa.array(100 - numbers)])
        cells = [sliced.aggregate(part, given) for part, given in zip(together.parts, arguments, strict=True)]
        one = cells[0]
        state = together.joined([c.state for c in cells])
        store.put(type(one)(one.starts, one.widths, one.groups, one.firsts, one.lasts, one.rows, state))
        at += len(piece)
    view = store.view()
    assert int(view.rows.sum()) == len(rows) and store.kept > 0 and store.nbytes > 0
    for place in range(len(view)):
        start, group = int(view.starts[place]), int(view.groups[place])
        mine = [(i, row) for i, row in enumerate(rows) if row[0] // 10 * 10 == start and row[1] == group]
        values_of = [row[2] for _, row in mine if row[2] is not None]
        marks = together.part(view.state, 3)
        assert marks[LATEST][place] == max(row[0] for _, row in mine) + 5
        assert (marks[oldest(0)][place], marks[oldest(1)][place]) == (mine[0][0], 100 - mine[-1][0])
        single = {n: a[place : place + 1] for n, a in view.state.items()}
        assert Count(()).finish("count", together.part(single, 0), BIGINT).to_pylist() == [len(mine)]
        total = Total((DOUBLE,)).finish("sum", together.part(single, 1), DOUBLE).to_pylist()
        assert total == [sum(values_of) if values_of else None]
        distinct = Distinct((DOUBLE,)).finish("count_distinct", together.part(single, 2), BIGINT).to_pylist()
        assert distinct == [len(set(values_of))]
