"""PERIODS: after how many elements a series repeats itself.

The correlation of the series with itself at all lags comes from fast Fourier transforms, with gaps left out. Its peaks that are
high and stand out are candidates; those at multiples of one another are one period. Of symbols it is the share of equal pairs, as the segment
periodicity of Elfeky, Aref and Elmagarmid (2005), beyond that of pairs by chance.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from penstock.cancellation import check
from penstock.errors import error
from penstock.expr.kernel import kernel
from penstock.operators.mining.series import Columns, Floats, Ints, Options, Series

LEAST_PAIRS = 20
MOST_SYMBOLS = 64
"""Each symbol needs transforms of its own."""
PROMINENCE = 0.05
"""By so much a peak stands out at least, and a multiple of a period above its neighbours to be one of its own."""
_NOTHING = 1e-9
"""What varies by no more than this part of its size is constant."""


def periods(series: Series, options: Options) -> Columns:
    """The periods by strength. `confidence` is of symbols, and NULL for numbers."""
    last = len(series) // int(options["repeats"])
    if series.words:
        correlations, pairs, shares = agreement(series, last + 1)
    else:
        correlations, pairs = autocorrelation(series.values, last + 1, bool(options["detrend"]))
        shares = np.full(len(correlations), np.nan)
    peaks = candidates(correlations, pairs, float(options["strength"]))
    found = sorted(_periods(peaks, correlations).items(), key=lambda each: (-correlations[each[0]], each[0]))
    found = found[: int(options["top"])]
    lags = np.array([lag for lag, _ in found], np.int64)
    every = series.every_us / 1e6 if series.every_us else math.nan
    seconds = np.array([length * every for _, length in found], np.float64)
    return lags, seconds, correlations[lags], shares[lags]


def agreement(series: Series, most: int) -> tuple[Floats, Floats, Floats]:
    """By lag, the strength, the number of pairs and the share of equal ones; -1 where the strength is undefined or below it."""
    count = len(series)
    most = min(most, max(0, count - 1))
    present = ~np.isnan(series.values)
    words, sizes = np.unique(series.values[present], return_counts=True)
    strengths, pairs, shares = np.full(most + 1, -1.0), np.zeros(most + 1), np.full(most + 1, np.nan)
    if present.sum() < LEAST_PAIRS or len(words) < 2:
        return strengths, pairs, shares
    if len(words) > MOST_SYMBOLS:
        detail = f"PERIODS sees {len(words)} different symbols, more than {MOST_SYMBOLS}"
        raise error(
            "over_budget", detail=detail, hint="take fewer different values; PERIODIC_PATTERNS can be told its period"
        )
    chance = float(((sizes / sizes.sum()) ** 2).sum())
    equal = np.zeros(most + 1)
    for word in words:
        check()
        equal += _own_pairs(series.values == word, most)
    pairs = _own_pairs(present, most)
    known = pairs >= np.maximum(LEAST_PAIRS, (count - np.arange(most + 1)) / 10)
    shares[known] = equal[known] / pairs[known]
    strengths[known] = np.maximum(-1.0, np.round((shares[known] - chance) / (1 - chance), 9))
    strengths[0] = 1.0
    return strengths, pairs, shares


def _own_pairs(mask: npt.NDArray[np.bool_], most: int) -> Floats:
    """By lag, how many elements of a mask have another so much later."""
    size = 1 << (2 * len(mask) - 1).bit_length()
    spectrum = np.fft.rfft(mask.astype(np.float64), size)
    found: Floats = np.round(np.fft.irfft(np.conj(spectrum) * spectrum, size)[: most + 1])
    return found


def autocorrelation(values: Floats, most: int, detrend: bool) -> tuple[Floats, Floats]:
    """By lag, the correlation of elements with those so much later, and the number of pairs; -1 where it is undefined."""
    present = ~np.isnan(values)
    count, most = len(values), min(most, max(0, len(values) - 1))
    correlations, pairs = np.full(most + 1, -1.0), np.zeros(most + 1)
    rest = _without_trend(values, present, detrend)
    if rest is None:
        return correlations, pairs
    size = 1 << (2 * count - 1).bit_length()
    if present.all():
        # Every element has a partner, so only products need a transform.
        squares = np.concatenate([[0.0], np.cumsum(rest**2)])
        pairs = count - np.arange(most + 1.0)
        products = np.fft.irfft(np.abs(np.fft.rfft(rest, size)) ** 2, size)[: most + 1]
        early, late = squares[count - np.arange(most + 1)], squares[count] - squares[: most + 1]
    else:
        one, square, mask = np.fft.rfft(np.stack([rest, rest**2, present.astype(np.float64)]), size)
        # The sums over elements i that have a partner of one value at i times another at i + lag, by lag.
        both = np.stack([np.conj(mask) * mask, np.conj(one) * one, np.conj(square) * mask, np.conj(mask) * square])
        pairs, products, early, late = np.fft.irfft(both, size)[:, : most + 1]
        pairs = np.round(pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = products / np.sqrt(np.maximum(early, 0) * np.maximum(late, 0))
    known = (pairs >= np.maximum(LEAST_PAIRS, (count - np.arange(most + 1)) / 10)) & np.isfinite(found)
    correlations[known] = np.round(found[known], 9)
    correlations[0] = 1.0
    return correlations, pairs


def _without_trend(values: Floats, present: np.ndarray, detrend: bool) -> Floats | None:
    """The present values minus their line or mean, 0 where there is none; None where nothing is left."""
    if present.sum() < LEAST_PAIRS:
        return None
    at = np.flatnonzero(present).astype(np.float64)
    own = values[present]
    off, about = own - own.mean(), at - at.mean()
    if detrend:
        off = off - about * (about @ off) / (about @ about)
    if np.abs(off).max() <= _NOTHING * max(1.0, float(np.abs(own).max())):
        return None
    rest = np.zeros(len(values))
    rest[present] = off
    return rest


def candidates(correlations: Floats, pairs: Floats, strength: float) -> list[int]:
    """The lags of peaks that are high enough and stand out; the last lag is only a neighbour."""
    lags, prominences = _peaks(correlations, strength)
    return [
        lag
        for lag, prominence in zip(lags.tolist(), prominences.tolist(), strict=True)
        if round(prominence, 9) >= max(PROMINENCE, 3 / math.sqrt(pairs[lag]))
    ]


@kernel
def _peaks(heights: Floats, strength: float) -> tuple[Ints, Floats]:
    """The lags of peaks that are high enough, and how far one has to go down from each before a higher point is reached, or the end."""
    lags, prominences = np.empty(len(heights), np.int64), np.empty(len(heights))
    left, right, count = _lows(heights), _lows(heights[::-1].copy())[::-1], 0
    for lag in range(2, len(heights) - 1):
        height = heights[lag]
        if height < strength or height <= heights[lag - 1] or height < heights[lag + 1]:
            continue
        lags[count], prominences[count] = lag, height - max(left[lag], right[lag])
        count += 1
    return lags[:count], prominences[:count]


@kernel
def _lows(heights: Floats) -> Floats:
    """The lowest height between each place and the next higher one in front of it, or the beginning."""
    lows, higher, size = heights.copy(), np.empty(len(heights), np.int64), 0
    for i in range(len(heights)):
        while size > 0 and heights[higher[size - 1]] <= heights[i]:
            size -= 1
            lows[i] = min(lows[i], lows[higher[size]])
        higher[size] = i
        size += 1
    return lows


def _periods(peaks: list[int], correlations: Floats) -> dict[int, float]:
    """By lag, the length of each period in elements, which its multiples make more exact."""
    found: dict[int, float] = {}
    chained: set[int] = set()
    for peak in peaks:
        check()
        if peak in chained:
            continue
        chain, length = [peak], float(peak)
        while True:
            wanted = (len(chain) + 1) * length
            after = bisect_left(peaks, wanted)
            nearest = min(peaks[max(0, after - 1) : after + 1], key=lambda lag: (abs(lag - wanted), lag))
            if abs(nearest - wanted) > max(1.0, length / 8) or nearest <= chain[-1]:
                break
            chain.append(nearest)
            length = nearest / len(chain)
        chained.update(chain)
        found.setdefault(peak, length)
        for place in range(1, len(chain)):
            neighbours = [chain[place - 1], *chain[place + 1 : place + 2]]
            if all(correlations[chain[place]] >= correlations[lag] + PROMINENCE for lag in neighbours):
                found.setdefault(chain[place], float(chain[place]))
    return found
