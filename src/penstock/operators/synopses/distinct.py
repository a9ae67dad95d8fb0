"""Distinct values over a sliding window: Flajolet-Martin bitmaps whose bits carry the time of their last setting."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
import numpy.typing as npt

from penstock.errors import error
from penstock.operators.kernel import kernel
from penstock.operators.synopses.base import BEFORE_ALL_TIME, Answer, Arrays, Ints, Synopsis, Values
from penstock.operators.synopses.hashing import hashed

BITS = 32
_FRACTION = 0.77351  # bias of the position of the lowest unset bit (Flajolet and Martin)
_SMALL = 1.75  # correction for few values (Scheuermann and Mauve)
_DEVIATION = 0.78  # standard error of one map's worth of averaging


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
        # Two standard errors are `epsilon`; the number of maps is a power of two.
        self.maps = 1 << max(4, math.ceil(2 * math.log2(2 * _DEVIATION / epsilon)))
        self.times: Ints = _never(self.maps, 0)  # high bits take no room until one is set

    def answers(self, window: int | None = None) -> list[Answer]:
        inside = self.times >= max(self.oldest_inside(window), BEFORE_ALL_TIME + 1)
        empty = int((~inside.any(axis=1)).sum())
        if empty == self.maps:
            return [Answer(0.0, 0.0, 0.0)]
        runs = np.where(inside.all(axis=1), inside.shape[1], np.argmin(inside, axis=1)).mean()
        value = self.maps / _FRACTION * (2**runs - 2 ** (-_SMALL * runs))
        share = 2 * _DEVIATION / math.sqrt(self.maps)
        if empty and value < 1.5 * self.maps:
            # While maps are empty, their number alone says more.
            value = self.maps * math.log(self.maps / empty)
            load = value / self.maps
            share = 2 * math.sqrt(self.maps * (math.exp(load) - load - 1)) / value
        return [Answer(value, max(1.0, value * (1 - share) - 1), value * (1 + share) + 1, 0.95)]

    @property
    def nbytes(self) -> int:
        return self.times.nbytes

    def _insert(self, values: Values, times: Ints) -> None:
        rows, bits = places(hashed(values), self.maps)
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
def places(hashes: npt.NDArray[np.uint64], maps: int) -> tuple[Ints, Ints]:
    """Which map and which of its bits each value sets."""
    rows, bits = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
    for i in range(len(hashes)):
        rows[i] = hashes[i] % np.uint64(maps)
        rest, bit = hashes[i] // np.uint64(maps), 0
        while bit < BITS - 1 and rest & np.uint64(1) == np.uint64(0):
            rest >>= np.uint64(1)
            bit += 1
        bits[i] = bit
    return rows, bits


@kernel
def set_times(held: Ints, rows: Ints, bits: Ints, times: Ints) -> None:
    for i in range(len(rows)):
        held[rows[i], bits[i]] = max(held[rows[i], bits[i]], times[i])
