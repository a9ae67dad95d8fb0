"""Numbers of a p-stable distribution, made from hashes: the same key and row always give the same number."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.approximate.base import Floats
from penstock.operators.aggregate.approximate.hashes import mix

_GRID = 512


@kernel
def stable_numbers(keys: npt.NDArray[np.uint64], rows: int, p: float) -> Floats:
    """A row of `rows` independent numbers per key (after Chambers, Mallows and Stuck)."""
    out = np.empty((len(keys), rows))
    for i in range(len(keys)):
        for j in range(rows):
            seed = mix(keys[i] + np.uint64(j) * np.uint64(0xD1B54A32D192ED03))
            out[i, j] = stable(unit(seed), unit(mix(seed)), p)
    return out


@kernel
def unit(bits: np.uint64) -> float:
    """Strictly between 0 and 1."""
    return (np.float64(bits >> np.uint64(11)) + 0.5) / 9007199254740992.0


@kernel
def stable(u: float, v: float, p: float) -> float:
    angle, wait = math.pi * (u - 0.5), -math.log(v)
    if p == 1.0:
        return math.tan(angle)
    if p == 2.0:
        return 2.0 * math.sin(angle) * math.sqrt(wait)
    spread: float = math.sin(p * angle) / math.cos(angle) ** (1.0 / p)
    waited: float = (math.cos((1.0 - p) * angle) / wait) ** ((1.0 - p) / p)
    return spread * waited


@functools.cache
def median_and_spread(p: float) -> tuple[float, float]:
    """The median of the absolute values, and the relative standard error of a sample's median times sqrt(sample size)."""
    sizes = _grid(p, _GRID)
    low, median, high = np.quantile(sizes, [0.48, 0.5, 0.52])
    density = 0.04 / (high - low)
    return float(median), float(1 / (2 * density * median))


@kernel
def _grid(p: float, steps: int) -> Floats:
    out = np.empty(steps * steps)
    for i in range(steps):
        for j in range(steps):
            out[i * steps + j] = abs(stable((i + 0.5) / steps, (j + 0.5) / steps, p))
    return out
