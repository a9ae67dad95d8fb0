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
    points = _partition(values, float(options["penalty"]) * unit, shortest)
    edges = np.concatenate([[0], points, [len(values)]])
    firsts, rests = values[edges[:-1]], _means_about_first(values, edges)
    means, sizes = firsts + rests, np.diff(edges)
    # What a point saves is the squared step between two means, in proportion to the sizes of both segments.
    steps = np.diff(firsts) + np.diff(rests)
    saved = steps**2 * (sizes[:-1] * sizes[1:] / (sizes[:-1] + sizes[1:]))
    return times[points], means[:-1], means[1:], saved / unit


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


@kernel
def _median(values: Floats) -> float:
    return float(np.median(values))


@kernel
def _means_about_first(values: Floats, edges: Ints) -> Floats:
    """How much more than its first value the mean of each segment is."""
    found = np.zeros(len(edges) - 1)
    for k in range(len(found)):
        low, high = edges[k], edges[k + 1]
        for i in range(low, high):
            found[k] += values[i] - values[low]
        found[k] /= high - low
    return found


@kernel
def _take(sums: Floats, squares: Floats, firsts: Floats, value: float) -> None:
    """Let the segments that are still open have one more value."""
    for i in range(len(sums)):
        off = value - firsts[i]
        sums[i] += off
        squares[i] += off * off


@kernel
def _partition(values: Floats, penalty: float, shortest: int) -> Ints:
    """The first elements of the segments of the best partition, without that of the first segment."""
    count = len(values)
    best = np.full(count + 1, np.inf)
    best[0] = 0.0
    points, last = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    candidates, until = np.zeros(count + 1, np.int64), np.full(count + 1, count + 1)
    # Of each candidate what its cost begins with, side by side; the first candidate is 0: no change point. Sums and squares are
    # of values about the first one of the segment: about one number for all, steps that are large beside the noise would lose it.
    base, costs = np.zeros(count + 1), np.empty(count + 1)
    firsts, sums, squares = np.empty(count + 1), np.zeros(count + 1), np.zeros(count + 1)
    firsts[0] = values[0]
    size = 1
    for end in range(1, count + 1):
        _take(sums[:size], squares[:size], firsts[:size], values[end - 1])
        if end < shortest:
            continue
        ready = size
        while ready > 0 and end - candidates[ready - 1] < shortest:
            ready -= 1
        for i in range(ready):
            costs[i] = base[i] + max(0.0, squares[i] - sums[i] * sums[i] / (end - candidates[i]))
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
                    candidates[kept], base[kept] = start, base[i]
                    firsts[kept], sums[kept], squares[kept] = firsts[i], sums[i], squares[i]
                kept += 1
        size = kept
        if end < count:
            candidates[size], base[size] = end, best[end] + penalty
            firsts[size], sums[size], squares[size] = values[end], 0.0, 0.0
            size += 1
    found = np.empty(points[count], np.int64)
    at, place = count, points[count] - 1
    while last[at]:
        at = last[at]
        found[place] = at
        place -= 1
    return found
