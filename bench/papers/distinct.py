"""Distinct values over a sliding window: Flajolet-Martin bitmaps whose bits carry the time of their last setting."""

from __future__ import annotations

from typing import Self

import numpy as np
import pyarrow as pa

from bench.papers.base import BEFORE_ALL_TIME, Arrays, Estimate, Ints, Synopsis, Values
from bench.papers.compilation import kernel
from penstock.errors import error
from penstock.operators.aggregate.approximate.base import hashes_of
from penstock.operators.aggregate.approximate.distinct import distinct_count, map_count, places


class TimedBitmaps(Synopsis):
    """A value's hash picks one of the maps and, with probability 2^-(i+1), its bit i. A bit counts while its time is inside.

    Standard error 0.78 / sqrt(maps); bounds are two of them to each side, 95 % sure. Merging is exact: the later time.
    """

    kind = "distinct"
    repeatable = True

    def __init__(self, *, epsilon: float = 0.1, window: int | None = None) -> None:
        super().__init__(epsilon=epsilon, window=window)
        if not 0.005 <= epsilon < 1:
            raise error("invalid_parameter", detail=f"an error of {epsilon} is not between 0.005 and 1")
        self.maps = map_count(epsilon)
        self.times: Ints = _never(self.maps, 0)  # high bits take no room until one is set

    def answers(self, window: int | None = None) -> list[Estimate]:
        inside = self.times >= max(self.oldest_inside(window), BEFORE_ALL_TIME + 1)
        found = distinct_count(inside)
        return [Estimate(found.value, found.lower, found.upper, 0.95 if found.value else 1.0)]

    @property
    def nbytes(self) -> int:
        return self.times.nbytes

    def _insert(self, values: Values, times: Ints) -> None:
        rows, bits = places(hashes_of(pa.array(values)).view(np.uint64), self.maps)
        self._reach(int(bits.max()) + 1)
        set_times(self.times, rows, bits, times)

    def _reach(self, width: int) -> None:
        more = width - self.times.shape[1]
        if more > 0:
            self.times = np.hstack([self.times, _never(self.maps, more)])

    def _expire(self) -> None:
        """Bits whose time has passed do not count; there is nothing to give back."""

    def _absorb(self, other: Self) -> None:
        width = other.times.shape[1]
        self._reach(width)
        np.maximum(self.times[:, :width], other.times, out=self.times[:, :width])

    def _state(self) -> Arrays:
        return {"times": self.times}

    def _restore(self, arrays: Arrays) -> None:
        self.times = arrays["times"].copy()


def _never(maps: int, width: int) -> Ints:
    return np.full((maps, width), BEFORE_ALL_TIME, np.int64)


@kernel
def set_times(held: Ints, rows: Ints, bits: Ints, times: Ints) -> None:
    for i in range(len(rows)):
        held[rows[i], bits[i]] = max(held[rows[i], bits[i]], times[i])
