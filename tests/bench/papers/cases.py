"""What the conformance suite knows of each kind: how to make one, what to feed it, and the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bench.papers.base import Synopsis, Values
from bench.papers.norm import exact_norm
from bench.papers.registry import make

Truth = Callable[[Values], dict[Any, float]]
"""From the values of a window to the exact answer by key."""


@dataclass(frozen=True)
class Case:
    kind: str
    parameters: dict[str, Any]
    draw: Callable[[np.random.Generator, int], Values]
    truth: Truth
    most_bytes: int
    """However long the stream is: 100 000 rows in a window of 20 000 units of time."""
    adverse: Callable[[int], Values] = np.arange
    """Input that is meant to fill the memory."""
    windowed: bool = True

    def make(self, window: int) -> Synopsis:
        return make(self.kind, **self.parameters, **({"window": window} if self.windowed else {}))


def ones(rng: np.random.Generator, n: int) -> Values:
    return rng.integers(0, 2, n)


def amounts(rng: np.random.Generator, n: int) -> Values:
    return rng.integers(0, 1000, n)


def reals(rng: np.random.Generator, n: int) -> Values:
    return rng.normal(3, 20, n)


def weights(rng: np.random.Generator, n: int) -> Values:
    return rng.lognormal(0, 3, n)


def keys(rng: np.random.Generator, n: int) -> Values:
    return rng.zipf(1.3, n) % 50_000


def names(rng: np.random.Generator, n: int) -> Values:
    return np.array([f"user {k}" for k in rng.zipf(1.5, n) % 3000], object)


def one(function: Callable[[Values], float], empty: float = 0.0) -> Truth:
    return lambda values: {None: float(function(values)) if len(values) else empty}


def bars(values: Values) -> dict[Any, float]:
    edges = [-math.inf, -10, 0.5, 7, 40, math.inf]
    return {(low, high): float(((values >= low) & (values < high)).sum()) for low, high in pairwise(edges)}


def quantiles(values: Values) -> dict[Any, float]:
    if not len(values):
        return dict.fromkeys((0.1, 0.5, 0.99), math.nan)
    return {rank: float(np.quantile(values, rank, method="inverted_cdf")) for rank in (0.1, 0.5, 0.99)}


def counts(values: Values) -> dict[Any, float]:
    found, counted = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), counted.astype(float).tolist(), strict=True))


def distinct(values: Values) -> float:
    return len(np.unique(values))


RANKS = {"ranks": [0.1, 0.5, 0.99]}
CASES = (
    Case("count", {"epsilon": 0.1}, ones, one(np.count_nonzero), 1_000, np.ones),
    Case("count", {"epsilon": 0.01}, ones, one(np.count_nonzero), 6_000, np.ones),
    Case("sum", {"epsilon": 0.05}, amounts, one(np.sum), 4_500, lambda n: np.full(n, 10**9)),
    Case("sum", {"epsilon": 0.1, "unit": 0.25}, amounts, one(np.sum), 4_500, lambda n: np.full(n, 10**9)),
    Case("weight_sum", {"epsilon": 0.05}, weights, one(np.sum), 20_000, lambda n: np.logspace(9, -9, n)),
    Case("real_sum", {"epsilon": 0.05}, reals, one(np.sum), 20_000, lambda n: np.logspace(9, -9, n)),
    Case("average", {"epsilon": 0.05}, reals, one(np.mean, math.nan), 30_000, lambda n: np.logspace(9, -9, n)),
    Case("histogram", {"epsilon": 0.1, "edges": [-10, 0.5, 7, 40]}, reals, bars, 6_000),
    Case("min", {"limit": 64}, reals, one(np.min, math.nan), 1_600),
    Case("max", {"limit": 64}, reals, one(np.max, math.nan), 1_600, lambda n: -np.arange(n)),
    Case("distinct", {"epsilon": 0.15}, keys, one(distinct), 2**15),
    Case("norm", {"p": 1.0}, keys, one(lambda v: exact_norm(v, 1.0)), 300_000),
    Case("norm", {"p": 1.5}, keys, one(lambda v: exact_norm(v, 1.5)), 300_000),
    Case("norm", {"p": 2.0}, keys, one(lambda v: exact_norm(v, 2.0)), 300_000),
    Case("hll_distinct", {"log_size": 11}, names, one(distinct), 4_000, windowed=False),
    Case("theta_distinct", {"log_size": 10}, names, one(distinct), 20_000, windowed=False),
    Case("kll_quantiles", RANKS, reals, quantiles, 8_000, windowed=False),
    Case("frequent", {"log_size": 8}, names, counts, 12_000, windowed=False),
    Case("sliced", {"of": "hll_distinct", "step": 1000}, names, one(distinct), 120_000),
    Case("sliced", {"of": "kll_quantiles", "step": 700, "inner": RANKS}, reals, quantiles, 200_000),
    Case("sliced", {"of": "frequent", "step": 1000, "inner": {"log_size": 7}}, names, counts, 200_000),
)
