"""FORECAST: the next elements with a band, by exponential smoothing of level, damped trend and season.

The best of a fixed grid of weights is taken, so the result is the same on every machine. The best are those that would have forecast
this series best: not one step ahead, but as far as is asked for.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.mining.series import Columns, Floats, Ints, Options, Series

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
    steps = np.arange(1, int(options["ahead"]) + 1)
    damped = np.cumsum(DAMPING**steps)
    judged = np.union1d(2 ** np.arange(len(steps).bit_length()), steps[-1:])  # 1, 2, 4, .. and the last one
    weights = _best(series.values, level, places, first, gammas, (judged, damped))
    errors, level, trend, places = _smoothed(series.values, level, places, weights, first, (steps, damped))
    values = level + trend * damped
    if season:
        values = values + places[(len(series) - 1 + steps) % season]
    # No band is narrower than that of a step before, nor is one of a step for which there are no errors.
    widths = np.fmax.accumulate(errors) * NormalDist().inv_cdf((1 + float(options["level"])) / 2) * _DEVIATIONS
    return series.times[-1] + steps * series.every_us, values, values - widths, values + widths


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
    values: Floats, level: float, start: Floats, weights: Floats, first: int, ahead: tuple[Ints, Floats]
) -> tuple[Floats, float, float, Floats]:
    """The mean absolute errors of some steps, of elements from `first` on, and level, trend and season behind the last element.

    `ahead`: the steps, and by step what of the trend is added. A step without errors has NaN.
    """
    alpha, beta, gamma = weights
    steps, damped = ahead
    places, trend, season, count = start.copy(), 0.0, len(start), len(values)
    totals, counts = np.zeros(len(steps)), np.zeros(len(steps))
    for i in range(count):
        for k in range(len(steps)):
            seen = i - 1 + steps[k]
            if first <= seen < count and not np.isnan(values[seen]):
                totals[k] += abs(values[seen] - (level + trend * damped[steps[k] - 1] + places[seen % season]))
                counts[k] += 1
        expected, error = level + DAMPING * trend, 0.0
        if not np.isnan(values[i]):
            error = values[i] - expected - places[i % season]
        level = expected + alpha * error
        trend = DAMPING * trend + alpha * beta * error
        if season > 1:
            places[i % season] += gamma * (1 - alpha) * error
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan), level, trend, places


@kernel
def _best(
    values: Floats, level: float, places: Floats, first: int, gammas: Floats, ahead: tuple[Ints, Floats]
) -> Floats:
    """The weights with the least error, the mean of those of the steps, the first of several; errors count to 9 digits."""
    best, least = np.zeros(3), np.inf
    for alpha in ALPHAS:
        for beta in BETAS:
            for gamma in gammas:
                weights = np.array([alpha, beta, gamma])
                error = float(np.nanmean(_smoothed(values, level, places, weights, first, ahead)[0]))
                if error < least * (1 - 1e-9):
                    least = error
                    best = weights
    return best
