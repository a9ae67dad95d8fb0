"""MW-join, or FEW-join: forward evaluation in two modes, with nested loops (`schedules.two_modes` has the modes).

Mode 2 joins an admitted tuple with whole buffers and makes no window test: what is buffered lies within the window. That is
exact where everything after a stream's tuple has the same window: uniform cliques, and most pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.family import evaluate_forward, reaches
from penstock.operators.join.papers.search import SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side


def covers(bounds: Bounds) -> bool:
    """Whether each stream has one window for all that comes after it; otherwise `gca` and `lca` refine."""
    for j, row in enumerate(bounds.upper):
        after = {upper for k, upper in enumerate(row) if k != j}
        if len(after) != 1 or any(upper is not None and upper < 0 for upper in after):
            return False
    return True


def run(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """All combinations with a fresh row, without a window test in Mode 2. The bounds are covered."""
    return evaluate_forward(sides, bounds, conditions, counters, reaches(bounds), SearchOptions(chained=False))
