"""ANOMALIES and ANOMALY: how far an element is from what those before it let expect.

A score uses a fixed number of elements before its own, and none after it. So it stays the same as the window moves on, until a
late reading changes one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import error
from penstock.expr.kernel import kernel
from penstock.operators.mining.order_statistics import insert, percentile_of, remove
from penstock.operators.mining.series import Columns, Floats, Options, Series

LEAST = 20
"""A score needs so many values in the history, and a twentieth of it."""
MOST_SCORE = 1000.0
MOST_WORK = 5_000_000_000
"""How many values of histories and seasons are moved or added up for a series, at most: some seconds."""
_ADDED = 3
"""Adding up a history takes so many times as long as moving one value in its order."""
_QUARTILES, _TAILS = 1.349, 3.29
"""How many deviations of a normal distribution lie between P25 and P75, and between P5 and P95."""


def reach_of(options: Options) -> int:
    """How many elements before an element its score uses."""
    return int(options["history"]) + int(options["smooth"]) - 1 + _season_reach(options)


def _season_reach(options: Options) -> int:
    season = options["season"]
    return 0 if season is None else int(options["seasons"] * season + options["spread"])


def elements_needed(options: Options) -> int:
    """How many elements a window has to hold before one of them can be returned."""
    return reach_of(options) + int(options.get("quiet") or 0) + 1


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores by element, NaN where there is none, and what they are made from."""

    values: Floats
    expected: Floats
    scales: Floats
    scores: Floats

    def columns(self, series: Series, chosen: np.ndarray, threshold: float) -> Columns:
        expected, width = self.expected[chosen], threshold * self.scales[chosen]
        bounds = expected - width, expected + width
        return series.times[chosen], self.values[chosen], expected, *bounds, self.scores[chosen]


def anomalies(series: Series, options: Options) -> Columns:
    """The elements with a score of at least the threshold, unless one of the `quiet` elements before has one, too."""
    first, quiet = max(0, reach_of(options) - series.before), int(options["quiet"])
    found = _scored(series, options, first)
    high = np.zeros(len(series), np.bool_)
    high[first:] = found.scores[first:] >= options["score"]
    places = np.flatnonzero(high)
    # One of which the elements before were not all scored may come late: it is left out.
    alone = np.diff(places, prepend=-quiet - 1) > quiet
    inside = places >= elements_needed(options) - 1 - series.before
    return found.columns(series, places[alone & inside], options["score"])


def anomaly(series: Series, options: Options) -> Columns:
    """The newest element, if it has a score, however low."""
    reach = reach_of(options)
    start = max(0, len(series) - 1 - reach)
    newest = Series(series.times[start:], series.values[start:], series.before + start, series.every_us)
    first = max(0, reach - newest.before)
    found = _scored(newest, options, max(first, len(newest) - 1))
    last = np.arange(max(0, len(newest) - 1), len(newest)) if first < len(newest) else np.empty(0, np.int64)
    return found.columns(newest, last[~np.isnan(found.scores[last])], options["score"])


def _scored(series: Series, options: Options, first: int) -> Scores:
    """The scores from an element on."""
    history, begin = int(options["history"]), max(0, first - int(options["history"]))
    _check_work(series, options, first)
    values = _smoothed(series.values, int(options["smooth"]))
    rests = values
    if options["season"] is not None:
        rests = _without_season(values, begin, int(options["season"]), int(options["seasons"]), int(options["spread"]))
    least = max(LEAST, -(-history // LEAST))
    centres, scales = _centres(rests, first, history, least, bool(options["robust"]))
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.abs(rests - centres)
        scores = np.where(scales > 0, off / scales, np.where(off == 0, 0.0, MOST_SCORE))
    scores = np.minimum(np.round(scores, 9), MOST_SCORE)
    scores[np.isnan(rests) | np.isnan(centres)] = np.nan
    return Scores(values, values - rests + centres, scales, scores)


def _check_work(series: Series, options: Options, first: int) -> None:
    """Refuse what would take minutes: a kernel cannot be cancelled."""
    history, seasonal = int(options["history"]), 0
    if options["season"] is not None:
        seasonal = (int(options["seasons"]) * (2 * int(options["spread"]) + 1)) ** 2
    scored = max(0, len(series) - first)
    work = scored * history * (1 if options["robust"] else _ADDED) + min(len(series), scored + history) * seasonal
    if work > MOST_WORK:
        detail = f"{scored} elements would be scored by a history of {history}"
        if seasonal:
            detail += f" and {options['seasons']} seasons"
        raise error("over_budget", detail=detail, hint="make the window or the history shorter, or the slots wider")


@kernel
def _smoothed(values: Floats, smooth: int) -> Floats:
    """The mean of those of the last `smooth` elements that are there; of equal ones, which it may be rounded away from, one of them."""
    out = np.full(len(values), np.nan)
    for i in range(len(values)):
        total, count, least, most = 0.0, 0, np.inf, -np.inf
        for j in range(max(0, i - smooth + 1), i + 1):
            if not np.isnan(values[j]):
                total += values[j]
                count += 1
                least, most = min(least, values[j]), max(most, values[j])
        if count:
            out[i] = least if least == most else total / count
    return out


@kernel
def _without_season(values: Floats, begin: int, season: int, seasons: int, spread: int) -> Floats:
    """Each value from `begin` on, minus the median of those about the same place of the seasons before."""
    out = np.full(len(values), np.nan)
    found = np.empty(seasons * (2 * spread + 1))
    for i in range(begin, len(values)):
        if np.isnan(values[i]):
            continue
        count = 0
        for j in range(1, seasons + 1):
            for k in range(i - j * season - spread, i - j * season + spread + 1):
                if k >= 0 and not np.isnan(values[k]):
                    insert(found, count, values[k])
                    count += 1
        if count:
            out[i] = values[i] - percentile_of(found, count, 0.5)
    return out


@kernel
def _centres(values: Floats, first: int, history: int, least: int, robust: bool) -> tuple[Floats, Floats]:
    """Centre and scale of the `history` elements before each element from `first` on; NaN where too few are there."""
    centres, scales = np.full(len(values), np.nan), np.full(len(values), np.nan)
    ordered = np.empty(history + 1)
    count = 0
    for i in range(max(0, first - history), len(values)):
        if i >= first and count >= least:
            if robust:
                centres[i] = percentile_of(ordered, count, 0.5)
                scale = (percentile_of(ordered, count, 0.75) - percentile_of(ordered, count, 0.25)) / _QUARTILES
                if scale == 0:
                    scale = (percentile_of(ordered, count, 0.95) - percentile_of(ordered, count, 0.05)) / _TAILS
                scales[i] = scale
            elif ordered[0] == ordered[count - 1]:
                centres[i], scales[i] = (
                    ordered[0],
                    0.0,
                )  # a mean of equal values may be rounded, and then none is equal to it
            else:
                total = 0.0
                for k in range(count):
                    total += ordered[k]
                centres[i] = total / count
                squares = 0.0
                for k in range(count):
                    squares += (ordered[k] - centres[i]) ** 2
                scales[i] = np.sqrt(squares / (count - 1))
        if i - history >= max(0, first - history) and not np.isnan(values[i - history]):
            remove(ordered, count, values[i - history])
            count -= 1
        if not np.isnan(values[i]):
            insert(ordered, count, values[i])
            count += 1
    return centres, scales
