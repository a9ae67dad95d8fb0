"""CHANGE_POINTS: where the mean of a series changes.

The partition into segments that minimises squared deviations from their means, plus a penalty per change point, is found exactly
by dynamic programming. A candidate is dropped once no longer partition can need it, as in PELT (Killick, Fearnhead, Eckley 2012).
The penalty grows with the long-run noise, so values that follow each other closely give no spurious points.
"""

from __future__ import annotations

import numpy as np

from penstock.errors import error
from penstock.expr.kernel import kernel
from penstock.operators.mining.series import Columns, Floats, Ints, Options, Series

MOST = 20_000
_MAD = 1.4826
_TIE = 1e-9
"""Costs that are so near to each other are equal: then fewer points count, and earlier ones."""


def change_points(series: Series, options: Options) -> Columns:
    """The first element of each segment but the first, the means before and after it, and what it saves of the cost."""
    present = ~np.isnan(series.values)
    times, values, shortest = series.times[present], series.values[present], int(options["shortest"])
    if len(values) > MOST:
        detail = f"CHANGE_POINTS takes series of at most {MOST} values, this one has {len(values)}"
        raise error("over_budget", detail=detail, hint="make the window shorter or the slots wider")
    noise = long_run_noise(values) if len(values) >= 2 * shortest else 0.0
    if noise == 0:
        return np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0)
    unit = noise * float(np.log(len(values)))
    sums, squares = _prefix_sums(values)
    points = _partition(sums, squares, float(options["penalty"]) * unit, shortest)
    edges = np.concatenate([[0], points, [len(values)]])
    means = np.add.reduceat(values, edges[:-1]) / np.diff(edges)
    return times[points], means[:-1], means[1:], _saved(sums, squares, edges) / unit


def long_run_noise(values: Floats) -> float:
    """Half the variance of differences, made larger where neighbours are alike; 0: nothing varies."""
    one, two = values[1:] - values[:-1], values[2:] - values[:-2]
    if not len(two):
        return 0.0
    first, second = (_MAD * _median(np.abs(d - _median(d))) for d in (one, two))
    first, second = first**2, second**2
    if first == 0:
        first, second = float(np.mean(one**2)), float(np.mean(two**2))
    if first == 0:
        return 0.0
    rho = min(max(second / first - 1, 0.0), 0.95)
    return first / 2 * (1 + rho) / (1 - rho) ** 2


def _prefix_sums(values: Floats) -> tuple[Floats, Floats]:
    """Of values about their median: so less is lost when sums are subtracted."""
    about = values - _median(values)
    return np.concatenate([[0.0], np.cumsum(about)]), np.concatenate([[0.0], np.cumsum(about**2)])


@kernel
def _median(values: Floats) -> float:
    return float(np.median(values))


@kernel
def _cost(sums: Floats, squares: Floats, low: int, high: int) -> float:
    """The squared deviations of a segment from its mean."""
    total = sums[high] - sums[low]
    return float(max(0.0, squares[high] - squares[low] - total * total / (high - low)))


@kernel
def _saved(sums: Floats, squares: Floats, edges: Ints) -> Floats:
    """How much of the cost each point saves."""
    found = np.empty(len(edges) - 2)
    for i in range(len(found)):
        low, at, high = edges[i], edges[i + 1], edges[i + 2]
        found[i] = _cost(sums, squares, low, high) - _cost(sums, squares, low, at) - _cost(sums, squares, at, high)
    return found


@kernel
def _partition(sums: Floats, squares: Floats, penalty: float, shortest: int) -> Ints:
    """The first elements of the segments of the best partition, without that of the first segment."""
    count = len(sums) - 1
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    points, last = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    candidates, until = np.zeros(count + 1, np.int64), np.full(count + 1, count + 1)
    # Of each candidate what its cost begins with, side by side; the first candidate is 0: no change point.
    base, costs = np.zeros((3, count + 1)), np.empty(count + 1)
    size = 1
    for end in range(shortest, count + 1):
        ready = size
        while ready > 0 and end - candidates[ready - 1] < shortest:
            ready -= 1
        for i in range(ready):
            total = sums[end] - base[1, i]
            costs[i] = base[0, i] + max(0.0, squares[end] - base[2, i] - total * total / (end - candidates[i]))
        for i in range(ready):
            start, cost = candidates[i], costs[i]
            if cost > best[end] + _TIE * max(cost, penalty):
                continue
            number = points[start] + (1 if start else 0)
            slack = _TIE * max(abs(cost), penalty)
            if cost < best[end] - slack or (cost <= best[end] + slack and number < points[end]):
                best[end], points[end], last[end] = cost, number, start
        # A candidate that is worse without a penalty than this end with all is worse for every end that a segment from here reaches.
        kept = 0
        for i in range(size):
            start = candidates[i]
            if i < ready:
                lone = costs[i] - penalty
                if lone > best[end] and lone > best[end] + 2 * _TIE * max(abs(lone), penalty):
                    until[start] = min(until[start], end + shortest)
            if until[start] > end + 1:
                if kept < i:
                    candidates[kept] = start
                    base[0, kept], base[1, kept], base[2, kept] = base[0, i], base[1, i], base[2, i]
                kept += 1
        size = kept
        candidates[size] = end
        base[0, size], base[1, size], base[2, size] = best[end] + penalty, sums[end], squares[end]
        size += 1
    found = np.empty(points[count], np.int64)
    at, place = count, points[count] - 1
    while last[at]:
        at = last[at]
        found[place] = at
        place -= 1
    return found
