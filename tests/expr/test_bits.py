"""Packed bits and their bitmaps."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.expr.bits import bitmap_of_words, full, pack
from tests.expr.reference import unpack


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 4096, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("density", [0.0, 0.0005, 0.05, 0.5, 1.0])
def test_a_bitmap_holds_exactly_the_rows_of_its_mask(rows: int, density: float) -> None:
    mask = np.random.default_rng(rows).random(rows) < density
    bitmap = bitmap_of_words(pack(mask))
    assert np.array_equal(np.array(list(bitmap), np.int64), np.flatnonzero(mask))
    assert np.array_equal(unpack(pack(mask), rows), mask)
    # The bitmap is as good as one that grew by itself: it can be changed and stored.
    bitmap.add(rows)
    assert len(type(bitmap).deserialize(bitmap.serialize())) == mask.sum() + 1


def test_all_rows_leave_the_bits_behind_the_last_one_alone() -> None:
    assert full(70).tolist() == [2**64 - 1, 2**6 - 1]
    assert full(128).tolist() == [2**64 - 1] * 2
