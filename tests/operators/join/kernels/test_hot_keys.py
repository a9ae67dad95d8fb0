"""A key that fills a part is shared out: by place in the log, completely, and once."""

from __future__ import annotations

import numpy as np

from penstock.operators.join.kernels.keys import hot_keys, shared_out


def test_a_key_with_half_of_a_parts_share_is_hot() -> None:
    rng = np.random.default_rng(5)
    keys = [np.where(rng.random(10_000) < 0.4, 7, rng.integers(100, 10_000, 10_000)) for _ in range(3)]
    assert hot_keys(keys, 2).tolist() == [7]
    assert hot_keys(keys, 1).tolist() == []
    assert hot_keys([k[:1_000] for k in keys], 2).tolist() == []


def test_shares_are_complete_and_do_not_overlap() -> None:
    positions = np.flatnonzero(np.random.default_rng(6).random(1_001) < 0.3)
    shares = [shared_out(positions, part, 3) for part in range(3)]
    assert (np.sum(shares, axis=0) == 1).all()


def test_a_row_begins_in_the_same_part_whatever_other_rows_are_there() -> None:
    positions = np.arange(5_000, 6_000)
    some = np.random.default_rng(7).random(1_000) < 0.2
    for part in range(2):
        assert (shared_out(positions[some], part, 2) == shared_out(positions, part, 2)[some]).all()


def test_a_burst_is_shared_out_too() -> None:
    burst = np.arange(70_000, 70_200)
    assert [int(shared_out(burst, part, 2).sum()) for part in range(2)] == [100, 100]
