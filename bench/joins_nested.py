"""Forms of the window joins that look nothing up by key, as the papers compare them: the key is one more condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.join.kernels.bounds import UNBOUNDED, Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.registry import Run, evaluate_backward, evaluate_forward, reaches
from penstock.operators.join.papers.search import SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def run_gca(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    largest = bounds.largest()
    reach = np.full(len(sides), UNBOUNDED if largest is None else largest, np.int64)
    return evaluate_forward(sides, bounds, conditions, counters, reach, SearchOptions(chained=False, refine=True))


def run_lca(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    return evaluate_forward(
        sides, bounds, conditions, counters, reaches(bounds), SearchOptions(chained=False, refine=True)
    )


def run_pairs(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """Pair by pair along the stated windows."""
    stated = np.full((len(sides), len(sides)), UNBOUNDED, np.int64)
    for i, j, low, high in bounds.given:
        stated[i, j] = UNBOUNDED if high is None else high
        stated[j, i] = UNBOUNDED if low is None else -low
    along = [(i, j) for i, j, _, _ in bounds.given]
    options = SearchOptions(chained=False, upper=stated, along=along)
    return evaluate_backward(sides, bounds, conditions, counters, options)


def run_fastest_first(
    sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters
) -> list[Int64s]:
    """The stream with the most tuples is searched first, against our habit of beginning with the one that has the fewest."""
    most = max(range(len(sides)), key=lambda j: len(sides[j]))
    star = [(most, j) for j in range(len(sides)) if j != most]
    return evaluate_backward(sides, bounds, conditions, counters, SearchOptions(chained=False, along=star))


NESTED: dict[str, Run] = {
    "gca_nested": run_gca,
    "lca_nested": run_lca,
    "extended_nested": run_pairs,
    "fastest_first": run_fastest_first,
}
