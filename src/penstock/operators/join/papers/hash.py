"""HW-join: a new tuple looks back through hash tables on the key instead of whole buffers.

The tuples of a bucket form a chain in the order of time, so a probe stops at the period's edge. Buckets without probes need no
cleaning of their own: a chain ends at the first tuple that its stream has dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.kernels.parts import ROWS_PER_PART, parts_of
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.family import evaluate_backward
from penstock.operators.join.papers.search import SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def run(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """All combinations with a fresh row, by hash chains. Every side has a key."""
    if sum(map(len, sides)) <= ROWS_PER_PART:
        return evaluate_backward(sides, bounds, conditions, counters, SearchOptions(chained=True))
    found: list[list[Int64s]] = [[] for _ in sides]
    for part, rows in parts_of(sides):
        combinations = evaluate_backward(part, bounds, conditions, counters, SearchOptions(chained=True))
        for out, of_side, here in zip(found, rows, combinations, strict=True):
            out.append(of_side[here])
    return [np.concatenate(out) for out in found]
