"""Bitmaps of Flajolet and Martin: how many an error needs, which bits a hash sets, and how many values set bits stand for.

A value's hash picks one of the maps and, with probability 2^-(i+1), its bit i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import Ints

BITS = 32
_FRACTION = 0.77351  # bias of the position of the lowest unset bit (Flajolet and Martin)
_SMALL = 1.75  # correction for few values (Scheuermann and Mauve)
_DEVIATION = 0.78  # standard error of one map's worth of averaging


@dataclass(frozen=True, slots=True)
class DistinctCount:
    """How many distinct values there are, between bounds of two standard errors."""

    value: float
    lower: float
    upper: float

    @property
    def error(self) -> float:
        """How far the truth can be from the value, at most."""
        return max(self.upper - self.value, self.value - self.lower)


def map_count(epsilon: float) -> int:
    """The power of two of maps for which two standard errors are `epsilon`."""
    return 1 << max(4, math.ceil(2 * math.log2(2 * _DEVIATION / epsilon)))


def distinct_count(bits: npt.NDArray[np.bool_]) -> DistinctCount:
    """The count from the set bits: one row per map; columns beyond the highest set bit may be left out."""
    maps = len(bits)
    empty = int((~bits.any(axis=1)).sum())
    if empty == maps:
        return DistinctCount(0.0, 0.0, 0.0)
    runs = np.where(bits.all(axis=1), bits.shape[1], np.argmin(bits, axis=1)).mean()
    value = maps / _FRACTION * (2**runs - 2 ** (-_SMALL * runs))
    share = 2 * _DEVIATION / math.sqrt(maps)
    if empty and value < 1.5 * maps:
        # While maps are empty, their number alone gives a better estimate.
        value = maps * math.log(maps / empty)
        load = value / maps
        share = 2 * math.sqrt(maps * (math.exp(load) - load - 1)) / value
    return DistinctCount(value, max(1.0, value * (1 - share) - 1), value * (1 + share) + 1)


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
