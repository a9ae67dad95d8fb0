"""What the papers compare with: one counter and no memory of what came before."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from bench.papers.base import Floats
from bench.papers.compilation import kernel
from bench.papers.correlated.cuts import INNERS, as_numbers, cut_at
from bench.papers.correlated.question import Question

Heuristic: TypeAlias = Literal["keep_all", "reset"]
"""When the inner aggregate changes: keep what was counted, or begin again. Of a mean, keeping is the running mean."""


def heuristic_answers(question: Question, x: Floats, y: Floats, heuristic: Heuristic) -> Floats:
    """COUNT or SUM over a landmark window: each row is judged once, by the inner aggregate at its arrival."""
    weights = np.ones(len(x)) if question.outer == "count" else y.astype(np.float64)
    return _judge_once(
        x.astype(np.float64), weights, as_numbers(question), INNERS[question.inner], heuristic == "reset"
    )


@kernel
def _judge_once(x: Floats, weights: Floats, edges: Floats, inner: int, reset: bool) -> Floats:
    out = np.empty(len(x))
    total, best, sum_x = 0.0, np.nan, 0.0
    for i in range(len(x)):
        sum_x += x[i]
        before = best
        if inner == 2:
            best = sum_x / (i + 1)
        elif i == 0 or (inner == 0 and x[i] < best) or (inner == 1 and x[i] > best):
            best = x[i]
        if reset and inner != 2 and best != before:
            total = 0.0
        if cut_at(edges[0], best, -np.inf) <= x[i] < cut_at(edges[1], best, np.inf):
            total += weights[i]
        out[i] = total
    return out
