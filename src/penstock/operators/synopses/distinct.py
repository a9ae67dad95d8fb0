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
        self.times: Ints = np.full((self.maps, BITS), BEFORE_ALL_TIME, np.int64)

    def answers(self, window: int | None = None) -> list[Answer]:
        inside = self.times >= max(self.oldest_inside(window), BEFORE_ALL_TIME + 1)
        empty = int((~inside.any(axis=1)).sum())
        if empty == self.maps:
            return [Answer(0.0, 0.0, 0.0)]
        runs = np.where(inside.all(axis=1), BITS, np.argmin(inside, axis=1)).mean()
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
        set_bits(self.times, hashed(values), times)

    def _expire(self) -> None:
        """Bits whose time has passed do not count; there is nothing to give back."""

    def _absorb(self, other: Self) -> None:
        np.maximum(self.times, other.times, out=self.times)

    def _state(self) -> Arrays:
        return {"times": self.times}

    def _restore(self, arrays: Arrays) -> None:
        self.times = arrays["times"].copy()


@kernel
def set_bits(bits: Ints, hashes: npt.NDArray[np.uint64], times: Ints) -> None:
    maps = np.uint64(bits.shape[0])
    for i in range(len(hashes)):
        row, rest = hashes[i] % maps, hashes[i] // maps
        bit = 0
        while bit < BITS - 1 and rest & np.uint64(1) == np.uint64(0):
            rest >>= np.uint64(1)
            bit += 1
        bits[row, bit] = max(bits[row, bit], times[i])
