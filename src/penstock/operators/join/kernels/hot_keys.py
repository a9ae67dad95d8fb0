"""Hot keys: keys so frequent that the part that owns one would still work while all others wait."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.join.kernels.keys import Bools, Ints

# Fewer new rows than this are done before sharing them out would pay.
_ENOUGH = 5_000
_SAMPLE = 20_000
# So many neighbours in the log go to one part: few, so that a burst is shared out too.
_STRIPE = 4


def hot_keys(keys: Sequence[Ints], parts: int) -> Ints:
    """Keys with at least half of one part's share of the new rows. Follows from the rows, so all parts agree."""
    total = sum(map(len, keys))
    if parts < 2 or total < _ENOUGH:
        return np.empty(0, np.int64)
    step = max(1, total // _SAMPLE)
    sample = np.concatenate(keys)[::step]
    found, counts = np.unique(sample, return_counts=True)
    hot: Ints = found[counts * 2 * parts >= len(sample)]
    return hot


def shared_out(positions: Ints, part: int, parts: int) -> Bools:
    """One part's share of rows that no key assigns to a part. It depends on their log positions only."""
    mine: Bools = positions // _STRIPE % parts == part
    return mine
