"""FEW-join with hash tables: the two modes of `forward`, but Mode 2 walks the chain of the key's bucket.

Tuples are numbered in the order in which they entered their buffer, so Mode 1 drops from the old end by moving one number,
and every chain ends there.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.family import evaluate_forward, reaches
from penstock.operators.join.papers.search import SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def run(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """All combinations with a fresh row. Every side has a key, and `forward.covers` the bounds."""
    return evaluate_forward(sides, bounds, conditions, counters, reaches(bounds), SearchOptions(chained=True))
