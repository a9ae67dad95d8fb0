"""Exponential histograms: count and sum over a sliding window with a relative error, in logarithmic space."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np

from bench.papers.base import Arrays, Estimate, Ints, Synopsis, Values
from bench.papers.canonical import NO_TIMES, expired, inserted, interleaved, total_since
from penstock.errors import error

MOST_UNITS = 2**61
"""A total beyond this does not fit the arithmetic of sizes."""


class ExponentialHistogram(Synopsis):
    """Units in time. The newest `window` of them, and any shorter window, are known within `epsilon` of the truth.

    Merged ones take the newer time for all units of a bucket: each merge along the way lets the true total be smaller by
    another 1/(l + 1), which the lower bound says.
    """

    repeatable = True

    def __init__(self, *, epsilon: float = 0.01, window: int | None = None, **more: Any) -> None:
        super().__init__(epsilon=epsilon, window=window, **more)
        if not 0 < epsilon <= 1:
            raise error("invalid_parameter", detail=f"an error of {epsilon} is not between 0 and 1")
        self.least = -(-math.ceil(1 / epsilon) // 2)
        self.held, self.total, self.merges = NO_TIMES, 0, 0

    @abstractmethod
    def units(self, values: Values) -> Ints:
        """How many units each value stands for."""

    def answers(self, window: int | None = None) -> list[Estimate]:
        lower, upper = self.bounds(window)
        return [Estimate((lower + upper) / 2, lower, upper)]

    def bounds(self, window: int | None = None) -> tuple[float, float]:
        """At least and at most so many units. Their middle is total - (last - 1)/2 as long as nothing was merged."""
        total, last = total_since(self.held, self.total, self.least, self.oldest_inside(window))
        if total == 0 or (self.window is None and window is None):
            return float(total), float(total)
        return (total - last + 1) * (1 - 1 / (self.least + 1)) ** self.merges, float(total)

    @property
    def nbytes(self) -> int:
        return self.held.nbytes + 3 * 8

    def _insert(self, values: Values, times: Ints) -> None:
        self._take(self.units(values), times)

    def _take(self, units: Ints, times: Ints) -> None:
        if float(units.sum(dtype=np.float64)) + self.total > MOST_UNITS:
            raise error("invalid_parameter", detail="the sum is too large for its unit", hint="choose a larger unit")
        self.held, self.total = inserted(self.held, self.total, self.least, units, times, self.window or 0)

    def _expire(self) -> None:
        if self.window is not None and self.total:
            self.held, self.total = expired(self.held, self.total, self.least, self.now - self.window)

    def _absorb(self, other: Self) -> None:
        if other.total == 0:
            return
        if self.total == 0:
            self.held, self.total, self.merges = other.held, other.total, other.merges
            return
        sizes, times = interleaved(self.held, self.total, other.held, other.total, self.least)
        self.held, self.total = NO_TIMES, 0
        self._take(sizes, times)
        self.merges = max(self.merges, other.merges) + 1

    def _state(self) -> Arrays:
        return {"held": self.held, "totals": np.array([self.total, self.merges], np.int64)}

    def _restore(self, arrays: Arrays) -> None:
        # A kernel is compiled once per layout: arrays from bytes are read-only, so they are copied.
        self.held = arrays["held"].copy()
        self.total, self.merges = (int(n) for n in arrays["totals"])


class ExponentialCount(ExponentialHistogram):
    """How many values are true (or not zero): `COUNT(*)` of ones, or of rows that pass a condition."""

    kind = "count"

    def units(self, values: Values) -> Ints:
        units: Ints = (values != 0).astype(np.int64)
        return units


class ExponentialSum(ExponentialHistogram):
    """Sum of numbers that are not negative, in whole units. Fractions of a unit are rounded."""

    kind = "sum"

    def __init__(self, *, epsilon: float = 0.01, window: int | None = None, unit: float = 1) -> None:
        super().__init__(epsilon=epsilon, window=window, unit=unit)
        self.unit = unit

    def units(self, values: Values) -> Ints:
        whole = values if self.unit == 1 and values.dtype.kind in "iub" else np.rint(values / self.unit)
        if len(whole) and not whole.min() >= 0:
            raise error("invalid_parameter", detail="this sum takes no negative numbers", hint='"real_sum" does')
        units: Ints = whole.astype(np.int64)
        return units

    def bounds(self, window: int | None = None) -> tuple[float, float]:
        lower, upper = super().bounds(window)
        return lower * self.unit, upper * self.unit
