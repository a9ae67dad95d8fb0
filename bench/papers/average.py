"""Average over a sliding window: a sum and a count."""

from __future__ import annotations

import numpy as np

from bench.papers.base import NOTHING, Estimate, Ints, Values
from bench.papers.composite import Composite
from bench.papers.exponential import ExponentialCount
from bench.papers.real_sum import RealSum


class Average(Composite):
    """The ratio of two, each with half the error."""

    kind = "average"

    def __init__(self, *, epsilon: float = 0.01, window: int | None = None) -> None:
        super().__init__(epsilon=epsilon, window=window)
        self.parts = [
            RealSum(epsilon=epsilon / 2, window=window),
            ExponentialCount(epsilon=epsilon / 2, window=window),
        ]

    def answers(self, window: int | None = None) -> list[Estimate]:
        total, count = (part.answer(window) for part in self.parts)
        if count.upper == 0:
            return [NOTHING]
        fewest = max(count.lower, 1.0)
        ends = [s / c for s in (total.lower, total.upper) for c in (fewest, count.upper)]
        return [Estimate(total.value / count.value, min(ends), max(ends))]

    def _insert(self, values: Values, times: Ints) -> None:
        self.parts[0].update(values, times)
        self.parts[1].update(np.ones(len(values), np.int64), times)
