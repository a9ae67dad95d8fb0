"""Sum of any numbers over a sliding window: buckets of weights, merged while they are small beside everything newer."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from bench.papers.base import Arrays, Estimate, Floats, Ints, Synopsis, Values
from bench.papers.compilation import kernel
from bench.papers.composite import Composite
from penstock.errors import error


class WeightSum(Synopsis):
    """Sum of numbers that are not negative, within `epsilon` of the truth.

    A bucket is a weight with the times of its first and last number. Two neighbours become one when together they are at
    most 1/k of everything newer, so only the one bucket that a window's edge cuts is uncertain. No weight is ever
    subtracted. Space: 2 k log(sum / smallest number) buckets. Late numbers and other sites' buckets just take their place.
    """

    kind = "weight_sum"

    def __init__(self, *, epsilon: float = 0.01, window: int | None = None) -> None:
        super().__init__(epsilon=epsilon, window=window)
        if not 0 < epsilon <= 1:
            raise error("invalid_parameter", detail=f"an error of {epsilon} is not between 0 and 1")
        self.share = 1 / math.ceil(1 / (2 * epsilon))
        self.weights: Floats = np.empty(0)
        self.firsts: Ints = np.empty(0, np.int64)
        self.lasts: Ints = np.empty(0, np.int64)  # ascending

    def answers(self, window: int | None = None) -> list[Estimate]:
        since = self.oldest_inside(window)
        begin = int(np.searchsorted(self.lasts, since))
        weights = self.weights[begin:]
        upper, lower = float(weights.sum()), float(weights[self.firsts[begin:] >= since].sum())
        return [Estimate((lower + upper) / 2, lower, upper)]

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes + self.firsts.nbytes + self.lasts.nbytes

    def _insert(self, values: Values, times: Ints) -> None:
        weights = values.astype(np.float64)
        if len(weights) and not weights.min() >= 0:
            raise error("invalid_parameter", detail="a weight is negative or not a number")
        some = weights > 0
        self._add(weights[some], times[some], times[some])

    def _add(self, weights: Floats, firsts: Ints, lasts: Ints) -> None:
        weights = np.concatenate([self.weights, weights])
        firsts, lasts = np.concatenate([self.firsts, firsts]), np.concatenate([self.lasts, lasts])
        if len(lasts) > 1 and (lasts[1:] < lasts[:-1]).any():
            order = np.argsort(lasts, kind="stable")
            weights, firsts, lasts = weights[order], firsts[order], lasts[order]
        self.weights, self.firsts, self.lasts = compressed(weights, firsts, lasts, self.share)

    def _expire(self) -> None:
        begin = int(np.searchsorted(self.lasts, self.oldest_inside(None)))
        if begin:
            self.weights, self.firsts = self.weights[begin:].copy(), self.firsts[begin:].copy()
            self.lasts = self.lasts[begin:].copy()

    def _absorb(self, other: Self) -> None:
        self._add(other.weights, other.firsts, other.lasts)

    def _state(self) -> Arrays:
        return {"weights": self.weights, "firsts": self.firsts, "lasts": self.lasts}

    def _restore(self, arrays: Arrays) -> None:
        self.weights, self.firsts, self.lasts = (arrays[n].copy() for n in ("weights", "firsts", "lasts"))


@kernel
def compressed(weights: Floats, firsts: Ints, lasts: Ints, share: float) -> tuple[Floats, Ints, Ints]:
    """Merge neighbours, newest first, while together they weigh at most `share` of everything newer."""
    count = len(weights)
    out = count  # kept buckets fill the arrays from the end
    new_weights, new_firsts, new_lasts = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
    newer = 0.0
    for i in range(count - 1, -1, -1):
        # `newer` leaves out the bucket at `out`, which is still open.
        if out < count and new_weights[out] + weights[i] <= share * newer:
            new_weights[out] += weights[i]
            new_firsts[out] = min(new_firsts[out], firsts[i])
            continue
        if out < count:
            newer += new_weights[out]
        out -= 1
        new_weights[out], new_firsts[out], new_lasts[out] = weights[i], firsts[i], lasts[i]
    return new_weights[out:].copy(), new_firsts[out:].copy(), new_lasts[out:].copy()


class RealSum(Composite):
    """Sum of any numbers: what is added and what is taken away apart, each within `epsilon`.

    The error is relative to the sum of absolute values; where signs cancel it is large beside the sum, and says so.
    """

    kind = "real_sum"

    def __init__(self, *, epsilon: float = 0.01, window: int | None = None) -> None:
        super().__init__(epsilon=epsilon, window=window)
        self.parts = [WeightSum(epsilon=epsilon, window=window) for _ in range(2)]

    def answers(self, window: int | None = None) -> list[Estimate]:
        plus, minus = (part.answer(window) for part in self.parts)
        return [Estimate(plus.value - minus.value, plus.lower - minus.upper, plus.upper - minus.lower)]

    def _insert(self, values: Values, times: Ints) -> None:
        reals = values.astype(np.float64)
        if np.isnan(reals).any():
            raise error("invalid_parameter", detail="a sum takes no NaN")
        for part, signed in zip(self.parts, (reals, -reals), strict=True):
            mine = signed >= 0
            part.update(signed[mine], times[mine])
