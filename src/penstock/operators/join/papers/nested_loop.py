"""NLW-join: a new tuple looks back through the join buffers, one nested loop per stream.

Candidates come newest first, each is tested against the period that the tuples chosen so far leave, and the first one
too old ends its loop. For any predicate; equality is compared like a condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.family import evaluate_backward
from penstock.operators.join.papers.search import SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def run(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """All combinations with a fresh row, by nested loops."""
    return evaluate_backward(sides, bounds, conditions, counters, SearchOptions(chained=False))
