"""FORECAST: the next elements with a band, by exponential smoothing of level, damped trend and season.

The best of a fixed grid of weights is taken, so the result is the same on every machine.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.mining.series import Columns, Floats, Options, Series

ALPHAS = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8])
BETAS = np.array([0.0, 0.02, 0.1])
GAMMAS = np.array([0.02, 0.1, 0.3])
DAMPING = 0.98
_DEVIATIONS = 1.2533
"""The standard deviation of a normal distribution by its mean absolute error."""
_WITHOUT_SEASON = 10
"""So many elements are not judged where there is no season."""


def judged_from(options: Options) -> int:
    """From which element on one-step errors count: two seasons say how the smoothing begins."""
    season = options["season"]
    return _WITHOUT_SEASON if season is None else 2 * int(season)


def forecast(series: Series, options: Options) -> Columns:
    """The next `ahead` elements; none before there is a one-step error to judge by."""
    season, first = int(options["season"] or 0), judged_from(options)
    nothing = np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0)
    if len(series) <= first or np.isnan(series.values[first:]).all():
        return nothing
    level, places = _start(series.values, season)
    gammas = GAMMAS if season else GAMMAS[:1]
    best = _best(series.values, level, places, first, gammas)
    alpha, beta, gamma = (float(weight) for weight in best[:3])
    error, level, trend, places = _smoothed(series.values, level, places, (alpha, beta, gamma), first)
    ahead = np.arange(1, int(options["ahead"]) + 1)
    damped = np.cumsum(DAMPING**ahead)
    values = level + trend * damped
    steps = alpha * (1 + beta * damped)
    if season:
        values = values + places[(len(series) - 1 + ahead) % season]
        steps = steps + gamma * (1 - alpha) * (ahead % season == 0)
    spread = np.sqrt(1 + np.concatenate([[0.0], np.cumsum(steps[:-1] ** 2)]))
    width = NormalDist().inv_cdf((1 + float(options["level"])) / 2) * _DEVIATIONS * error * spread
    return series.times[-1] + ahead * series.every_us, values, values - width, values + width


def _start(values: Floats, season: int) -> tuple[float, Floats]:
    """The level and the season before the first element."""
    if not season:
        return float(values[0]), np.zeros(1)
    seasons = values[: 2 * season].reshape(2, season)
    present = ~np.isnan(seasons)
    counts = present.sum(axis=1)
    known = np.where(present, seasons, 0.0)
    means = known.sum(axis=1) / np.maximum(counts, 1)
    off = np.where(present, seasons - means[:, None], 0.0)
    return float(means[0]), off.sum(axis=0) / np.maximum(present.sum(axis=0), 1)


@kernel
def _smoothed(
    values: Floats, level: float, start: Floats, weights: tuple[float, float, float], first: int
) -> tuple[float, float, float, Floats]:
    """The mean absolute one-step error from an element on, and level, trend and season behind the last one."""
    alpha, beta, gamma = weights
    places, trend, total, count = start.copy(), 0.0, 0.0, 0
    season = len(places)
    for i in range(len(values)):
        place = i % season
        expected = level + DAMPING * trend
        error = 0.0
        if not np.isnan(values[i]):
            error = values[i] - expected - places[place]
            if i >= first:
                total += abs(error)
                count += 1
        level = expected + alpha * error
        trend = DAMPING * trend + alpha * beta * error
        if season > 1:
            places[place] += gamma * (1 - alpha) * error
    return total / max(count, 1), level, trend, places


@kernel
def _best(values: Floats, level: float, places: Floats, first: int, gammas: Floats) -> Floats:
    """The weights with the least error, the first of several; errors count to 9 digits."""
    best, least = np.zeros(3), np.inf
    for alpha in ALPHAS:
        for beta in BETAS:
            for gamma in gammas:
                error = _smoothed(values, level, places, (alpha, beta, gamma), first)[0]
                if error < least * (1 - 1e-9):
                    least = error
                    best[0], best[1], best[2] = alpha, beta, gamma
    return best
