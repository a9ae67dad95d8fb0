"""GCA, the global conservative approach: forward evaluation with the largest window for all streams, then refinement.

Any form of bounds: finished combinations are tested pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.join.kernels.bounds import UNBOUNDED, Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.family import evaluate_forward, has_keys
from penstock.operators.join.papers.search import SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def run(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """All combinations with a fresh row; hash chains where there is a key."""
    largest = bounds.largest()
    reach = np.full(len(sides), UNBOUNDED if largest is None else largest, np.int64)
    options = SearchOptions(chained=has_keys(sides), refine=True)
    return evaluate_forward(sides, bounds, conditions, counters, reach, options)
