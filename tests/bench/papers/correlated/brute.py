"""Correlated aggregates by the definition, and random columns."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from bench.papers.base import Floats, Ints
from bench.papers.correlated.question import (
    Edge,
    Question,
    above_avg,
    around_avg,
    below_avg,
    near_max,
    near_min,
)

QUESTIONS = (
    near_min(0.5),
    near_min(3),
    near_max(0.4),
    near_max(0.9),
    above_avg(),
    below_avg(0.5),
    around_avg(2),
    Question("min", low=Edge(1, 2)),
    Question("max", high=Edge(1, -1, inclusive=False)),
    Question("min", low=Edge(1, 1), high=Edge(1, 5)),
)

# Whole numbers add up exactly, so that a threshold never falls beside a row by rounding alone.
columns = st.lists(st.tuples(st.integers(-8, 40), st.integers(-5, 9), st.integers(0, 3)), min_size=1, max_size=60)
"""x, y, and how much later than the row before."""


def arrays(drawn: list[tuple[int, int, int]]) -> tuple[Floats, Floats, Ints]:
    table = np.array(drawn, np.int64)
    return table[:, 0].astype(float), table[:, 1].astype(float), np.cumsum(table[:, 2])


def by_definition(question: Question, x: Floats, y: Floats, starts: Ints) -> list[float]:
    out = []
    for i, start in enumerate(starts.tolist()):
        xs, ys = x[start : i + 1], y[start : i + 1]
        inner = {"min": np.min, "max": np.max, "avg": np.mean}[question.inner](xs)
        seen = np.ones(len(xs), bool)
        if question.low is not None:
            cut = question.low.factor * inner + question.low.offset
            seen &= (xs >= cut) if question.low.inclusive else (xs > cut)
        if question.high is not None:
            cut = question.high.factor * inner + question.high.offset
            seen &= (xs <= cut) if question.high.inclusive else (xs < cut)
        found = ys[seen]
        if question.outer == "count":
            out.append(float(len(found)))
        elif not len(found):
            out.append(math.nan)
        else:
            outer = {"sum": np.sum, "avg": np.mean, "min": np.min, "max": np.max}[question.outer]
            out.append(float(outer(found)))
    return out
