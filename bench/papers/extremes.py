"""Minimum and maximum over a sliding window: the values that can still become the answer."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from bench.papers.base import NOTHING, Arrays, Estimate, Floats, Ints, Synopsis, Values
from bench.papers.compilation import kernel


class Extreme(Synopsis):
    """Values and times, both strictly increasing for a minimum: each is less than everything after it.

    On random input the list has about log(n) entries and the answer is exact. A stream that rises for long would fill it:
    beyond `limit` neighbours share an entry, which then says between which values the minimum lies. A maximum is the
    minimum of the negated values.
    """

    sign: ClassVar[float]

    def __init__(self, *, window: int | None = None, limit: int = 1024) -> None:
        super().__init__(window=window, limit=limit)
        self.limit = max(limit, 4)
        self.lows: Floats = np.empty(0)
        self.highs: Floats = np.empty(0)
        self.times: Ints = np.empty(0, np.int64)

    def answers(self, window: int | None = None) -> list[Estimate]:
        at = int(np.searchsorted(self.times, self.oldest_inside(window)))
        if at == len(self.times):
            return [NOTHING]
        low, high = float(self.lows[at]), float(self.highs[at])
        return [Estimate((low + high) / 2, low, high)] if self.sign > 0 else [Estimate(-(low + high) / 2, -high, -low)]

    @property
    def nbytes(self) -> int:
        return self.lows.nbytes + self.highs.nbytes + self.times.nbytes

    def _insert(self, values: Values, times: Ints) -> None:
        signed = self.sign * values.astype(np.float64)
        self._append(signed, signed, times)

    def _append(self, lows: Floats, highs: Floats, times: Ints) -> None:
        lows = np.concatenate([self.lows, lows])
        highs, times = np.concatenate([self.highs, highs]), np.concatenate([self.times, times])
        self.lows, self.highs, self.times = candidates(lows, highs, times, self.oldest_inside(None), self.limit)

    def _expire(self) -> None:
        begin = int(np.searchsorted(self.times, self.oldest_inside(None)))
        if begin:
            self.lows, self.highs = self.lows[begin:].copy(), self.highs[begin:].copy()
            self.times = self.times[begin:].copy()

    def _absorb(self, other: Self) -> None:
        lows = np.concatenate([self.lows, other.lows])
        highs, times = np.concatenate([self.highs, other.highs]), np.concatenate([self.times, other.times])
        order = np.argsort(times, kind="stable")
        self.lows, self.highs, self.times = candidates(
            lows[order], highs[order], times[order], self.oldest_inside(None), self.limit
        )

    def _state(self) -> Arrays:
        return {"lows": self.lows, "highs": self.highs, "times": self.times}

    def _restore(self, arrays: Arrays) -> None:
        self.lows, self.highs, self.times = (arrays[n].copy() for n in ("lows", "highs", "times"))


@kernel
def candidates(lows: Floats, highs: Floats, times: Ints, since: int, limit: int) -> tuple[Floats, Floats, Ints]:
    """The entries that no later one undercuts, at most `limit`. An entry stands for minima between low and high."""
    count = len(lows)
    out_lows, out_highs, out_times = np.empty(count), np.empty(count), np.empty(count, np.int64)
    first = count
    least_high = np.inf
    for i in range(count - 1, -1, -1):
        if times[i] < since:
            break
        if lows[i] >= least_high:
            continue
        first -= 1
        out_lows[first], out_highs[first], out_times[first] = lows[i], min(highs[i], least_high), times[i]
        least_high = out_highs[first]
    while count - first > limit:
        # Halve the older half: what leaves soonest is known in fewer steps. The very oldest is the answer now: it stays exact.
        pairs = max(1, (count - first) // 4)
        middle = first + 1 + 2 * pairs
        for pair in range(pairs - 1, -1, -1):
            older, newer, to = first + 1 + 2 * pair, first + 2 + 2 * pair, middle - (pairs - pair)
            out_lows[to], out_highs[to], out_times[to] = out_lows[older], out_highs[newer], out_times[newer]
        to = middle - pairs - 1
        out_lows[to], out_highs[to], out_times[to] = out_lows[first], out_highs[first], out_times[first]
        first = to
    return out_lows[first:].copy(), out_highs[first:].copy(), out_times[first:].copy()


class Minimum(Extreme):
    """The least value of the window."""

    kind = "min"
    sign = 1.0


class Maximum(Extreme):
    """The greatest value of the window."""

    kind = "max"
    sign = -1.0
