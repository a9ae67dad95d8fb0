"""A question as numbers for kernels: where to cut the line of x, so that `x < cut` says all."""

from __future__ import annotations

import numpy as np

from bench.papers.base import Floats
from bench.papers.compilation import kernel
from bench.papers.correlated.question import Edge, Question

INNERS = {"min": 0, "max": 1, "avg": 2}


def as_numbers(question: Question) -> Floats:
    """A row for the low and one for the high edge: present, factor, offset, one step up."""

    def row(edge: Edge | None, up: bool) -> list[float]:
        return [0.0] * 4 if edge is None else [1.0, edge.factor, edge.offset, float(up)]

    low, high = question.low, question.high
    # `x <= c` is `x < the next number after c`, and so is the complement of `x > c`.
    return np.array([row(low, low is not None and not low.inclusive), row(high, high is not None and high.inclusive)])


@kernel
def cut_at(edge: Floats, inner: float, otherwise: float) -> float:
    """Rows below the cut are those with `x < cut`."""
    if edge[0] == 0.0:
        return otherwise
    cut: float = edge[1] * inner + edge[2]
    if edge[3] != 0.0:
        return float(np.nextafter(cut, np.inf))
    return cut
