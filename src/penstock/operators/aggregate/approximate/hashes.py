"""Values as 64-bit numbers that look random: equal values give equal numbers, in every process."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import Ints, Numbers
from penstock.operators.join.kernels.keys import key_numbers


def hashes_of(values: pa.Array) -> Numbers:
    """A hash per value, as int64."""
    numbers, _ = key_numbers([values])
    hashes: Numbers = mixed(numbers).view(np.int64)
    return hashes


@kernel
def mixed(numbers: Ints) -> npt.NDArray[np.uint64]:
    out = np.empty(len(numbers), np.uint64)
    for i in range(len(numbers)):
        out[i] = mix(np.uint64(numbers[i]))
    return out


@kernel
def mix(number: np.uint64) -> np.uint64:
    """One step of the SplitMix64 generator: every bit of the number moves every bit of the result."""
    z = number + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
