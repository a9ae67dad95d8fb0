"""LCA, the local conservative approach: forward evaluation with each stream's own largest window, then refinement.

The period ends where the first starting tuple reaches no further with its own stream's largest window, so the buffers are
never larger than those of `gca`. Any form of bounds: finished combinations are tested pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.family import evaluate_forward, has_keys, reaches
from penstock.operators.join.papers.search import SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def run(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """All combinations with a fresh row; hash chains where there is a key."""
    options = SearchOptions(chained=has_keys(sides), refine=True)
    return evaluate_forward(sides, bounds, conditions, counters, reaches(bounds), options)
