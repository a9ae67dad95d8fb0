"""A histogram with given edges over a sliding window: an exponential histogram for each bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bench.papers.base import Estimate, Ints, Values
from bench.papers.composite import Composite
from bench.papers.exponential import ExponentialCount
from penstock.errors import error


class Bars(Composite):
    """How many values lie in each bar [edge, next edge), below the first edge and from the last one on."""

    kind = "histogram"
    repeatable = True

    def __init__(self, *, edges: Sequence[float], epsilon: float = 0.01, window: int | None = None) -> None:
        super().__init__(edges=list(edges), epsilon=epsilon, window=window)
        if not edges or any(not a < b for a, b in pairwise(edges)):
            raise error("invalid_parameter", detail="the edges of a histogram have to increase")
        self.edges = np.array(edges, np.float64)
        self.keys = list(pairwise([-math.inf, *self.edges.tolist(), math.inf]))
        self.parts = [ExponentialCount(epsilon=epsilon, window=window) for _ in self.keys]

    def answers(self, window: int | None = None) -> list[Estimate]:
        found = [part.answer(window) for part in self.parts]
        return [Estimate(bar.value, bar.lower, bar.upper, key=key) for bar, key in zip(found, self.keys, strict=True)]

    def _insert(self, values: Values, times: Ints) -> None:
        bars = np.searchsorted(self.edges, values, side="right")
        order = np.argsort(bars, kind="stable")
        ends = np.searchsorted(bars[order], np.arange(len(self.parts) + 1))
        sorted_times = times[order]
        for part, begin, end in zip(self.parts, ends, ends[1:], strict=False):
            if begin < end:
                part.update(np.ones(end - begin, np.int64), sorted_times[begin:end])
