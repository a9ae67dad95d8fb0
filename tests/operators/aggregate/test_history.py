"""Which cells rows of the log are sliced into."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.history import SliceRequest, WideCells
from penstock.operators.aggregate.shape import Family
from penstock.operators.aggregate.slicer import Batch

SECOND, HOUR = 1_000_000, 3_600_000_000


def _widths(wide: WideCells | None, seconds: list[int], chosen: list[int]) -> dict[int, list[int]]:
    family = Family(0, 0, None, None, ())
    times = np.array(seconds, np.int64) * SECOND
    batch = Batch(7, times, np.zeros(len(times), np.int32), {}, pa.table({}))
    request = SliceRequest(family, (), SECOND, wide=wide)
    return {width: some.tolist() for width, some in request.by_width(batch, np.array(chosen))}


def test_older_rows_of_one_file_go_into_wide_cells_and_newer_ones_into_fine_cells() -> None:
    wide = WideCells(HOUR, 2 * HOUR)
    assert _widths(wide, [0, 7199, 7200, 3600, 9000], [0, 1, 2, 4]) == {HOUR: [0, 1], SECOND: [2, 4]}


def test_rows_that_are_all_old_or_all_new_make_one_kind_of_cells() -> None:
    wide = WideCells(HOUR, 2 * HOUR)
    assert _widths(wide, [0, 5], [0, 1]) == {HOUR: [0, 1]}
    assert _widths(wide, [8000, 9000], [0, 1]) == {SECOND: [0, 1]}
    assert _widths(None, [0, 9000], [0, 1]) == {SECOND: [0, 1]}
