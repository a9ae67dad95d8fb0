"""Deterministic signals: every value is a pure function of a seed and a time, so that nothing need be kept.

Numbers come from hashing the index of a reading (splitmix64), not from a generator with state: a simulator
that is closed, or a server that restarts, continues as if it had never stopped.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11))
# From one second to 17 minutes: what a person watching a demo sees move, and what a day's window still averages.
_WALK_PERIODS_S = 2.0 ** np.arange(11)
_WALK_WEIGHTS = np.sqrt(_WALK_PERIODS_S / _WALK_PERIODS_S.sum())


def seed_of(*parts: object) -> int:
    """63 stable bits of whatever names a source of randomness."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def uniform(seed: int, index: NDArray[Any]) -> Floats:
    """Numbers in [0, 1), one per index."""
    with np.errstate(over="ignore"):
        state = index.astype(np.int64).view(np.uint64) * _GOLDEN + np.uint64(seed)
        state = (state ^ (state >> _SHIFTS[0])) * _MIX_1
        state = (state ^ (state >> _SHIFTS[1])) * _MIX_2
        state = state ^ (state >> _SHIFTS[2])
    return (state >> _SHIFTS[3]).astype(np.float64) * 2.0**-53


def gaussian(seed: int, index: NDArray[Any]) -> Floats:
    """Standard normal numbers, one per index (Box-Muller)."""
    radius = np.sqrt(-2.0 * np.log1p(-uniform(seed, index)))
    return np.asarray(radius * np.cos(2.0 * np.pi * uniform(seed ^ 0x5DEECE66D, index)), dtype=np.float64)


def walk(seed: int, times_us: Ints) -> Floats:
    """A wandering value around 0 with a deviation near 1, and small steps over short times.

    Sums smooth noise of doubling periods, each weighted with the root of its period: that is the spectrum of
    a random walk, without the memory that one needs.
    """
    at = (times_us.astype(np.float64) / 1e6)[None, :] / _WALK_PERIODS_S[:, None]
    cell = np.floor(at)
    part = at - cell
    part = part * part * (3.0 - 2.0 * part)
    # Cells of different periods are kept apart by an offset far beyond any cell's number in practice.
    index = cell.astype(np.int64) + (np.arange(len(_WALK_PERIODS_S), dtype=np.int64) << 44)[:, None]
    low, high = uniform(seed, index), uniform(seed, index + 1)
    noise = (low + (high - low) * part - 0.5) * np.sqrt(12.0)
    return np.asarray(_WALK_WEIGHTS @ noise, dtype=np.float64)


def periodic(seed: int, times_us: Ints, period_us: int) -> Floats:
    """A sine of amplitude sqrt(2), so that its deviation is 1, with a phase of its own per seed."""
    phase = (seed % 1_000_003) / 1_000_003
    turns = (times_us % period_us).astype(np.float64) / period_us + phase
    return np.asarray(np.sqrt(2.0) * np.sin(2.0 * np.pi * turns), dtype=np.float64)
