"""A key that fills a part is shared out: by time, completely, and once."""

from __future__ import annotations

import numpy as np

from penstock.operators.joins.hot_keys import hot_keys, shared_out


def test_a_key_with_half_of_a_parts_share_is_hot() -> None:
    rng = np.random.default_rng(5)
    keys = [np.where(rng.random(10_000) < 0.4, 7, rng.integers(100, 10_000, 10_000)) for _ in range(3)]
    assert hot_keys(keys, 2).tolist() == [7]
    assert hot_keys(keys, 1).tolist() == []
    assert hot_keys([k[:1_000] for k in keys], 2).tolist() == []


def test_shares_are_complete_and_do_not_overlap() -> None:
    is_hot = np.random.default_rng(6).random(1_001) < 0.3
    shares = [shared_out(is_hot, part, 3) for part in range(3)]
    assert (np.sum(shares, axis=0) == is_hot).all()
