"""Extended BEW-join for graphs and paths: a new tuple looks back along the stated windows, stream by stream.

A candidate is tested against the windows of its own constraint set only: those that the query states between its stream and
the streams bound so far. A tuple is dropped when it is older than its window allows against the newest tuple of every
stream; a tuple that violates some of them stays. Here the derived windows count as well: on a path a-b-c with windows of 5,
a tuple of a at 0 is out of reach of b's newest at 6, but b at 5 and a late c at 10 still make a combination with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.join.kernels.bounds import UNBOUNDED, Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.family import evaluate_backward, has_keys
from penstock.operators.join.papers.search import SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def run(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """All combinations with a fresh row; hash chains where there is a key."""
    along = [(i, j) for i, j, _, _ in bounds.given]
    options = SearchOptions(chained=has_keys(sides), upper=_stated(bounds), along=along)
    return evaluate_backward(sides, bounds, conditions, counters, options)


def _stated(bounds: Bounds) -> Int64s:
    upper = np.full((bounds.streams, bounds.streams), UNBOUNDED, np.int64)
    np.fill_diagonal(upper, 0)
    for i, j, low, high in bounds.given:
        upper[i, j] = UNBOUNDED if high is None else high
        upper[j, i] = UNBOUNDED if low is None else -low
    return upper
