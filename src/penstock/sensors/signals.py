"""Deterministic signals: every value is a pure function of a seed and a time, so that nothing need be kept.

Numbers come from hashing the index of a reading (splitmix64), not from a generator with state: a simulator
that is closed, or a server that restarts, continues as if it had never stopped.

Gas over a plant is one of them: puffs leave a leak, drift with the wind, spread and thin out. The concentration that a probe sees
is the sum of two-dimensional Gaussians, one per puff, each with a constant amount of gas: as a puff grows wider its peak falls.
The wind is a sum of sines, so the way of a puff is a closed formula of its release and the present.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cache
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


WIDTH_M, HEIGHT_M = 400.0, 300.0  # x runs east, y runs north, from the south-west corner
PLACES: dict[str, tuple[float, float]] = {
    "tank farm": (90.0, 150.0),
    "pump house": (130.0, 170.0),
    "boiler house": (180.0, 120.0),
    "control room": (220.0, 190.0),
    "loading dock": (260.0, 130.0),
    "workshop": (250.0, 60.0),
    "canteen": (310.0, 220.0),
    "laboratory": (170.0, 240.0),
    "warehouse": (330.0, 110.0),
    "north gate": (200.0, 295.0),
    "east gate": (395.0, 150.0),
    "south gate": (200.0, 5.0),
    "west gate": (5.0, 150.0),
}
BACKGROUND_PPM = 2.0
_LIFE_S = 600.0
# (mean, ((amplitude, period_s), ...)) of the wind's east and north parts, in m/s: mostly from the west, never still.
_EAST = (1.3, ((0.5, 1380.0), (0.2, 270.0)))
_NORTH = (0.0, ((0.8, 910.0), (0.35, 240.0)))


@dataclass(frozen=True, slots=True)
class Plume:
    """The gas of one seed. `every_s` lies between puffs; `strength_ppm` is a typical peak at the leak."""

    seed: int
    every_s: float = 90.0
    strength_ppm: float = 300.0
    source: tuple[float, float] = PLACES["tank farm"]
    width_0_m: float = 12.0
    spread: float = 0.12

    def concentration(self, position: tuple[float, float], times_us: Ints) -> Floats:
        """ppm at a place, for each time."""
        now_s = times_us.astype(np.float64)[None, :] / 1e6
        first = math.floor(float(now_s.min()) / self.every_s - _LIFE_S / self.every_s)
        last = math.floor(float(now_s.max()) / self.every_s)
        puffs = np.arange(first, last + 1, dtype=np.int64)[:, None]
        released_s = puffs.astype(np.float64) * self.every_s
        age_s = np.maximum(now_s - released_s, 0.0)
        x = self.source[0] + self._drift(_EAST, "east", released_s, now_s)
        y = self.source[1] + self._drift(_NORTH, "north", released_s, now_s)
        width = self.width_0_m + self.spread * 1.3 * age_s
        amount = self.strength_ppm * (0.5 + uniform(self.seed, puffs)) * self.width_0_m**2
        distance_2 = (position[0] - x) ** 2 + (position[1] - y) ** 2
        share = np.where((now_s >= released_s) & (age_s <= _LIFE_S), np.exp(-distance_2 / (2 * width**2)), 0.0)
        return np.asarray((amount / width**2 * share).sum(axis=0), dtype=np.float64)

    def _drift(
        self, wind: tuple[float, tuple[tuple[float, float], ...]], part: str, begin_s: Floats, end_s: Floats
    ) -> Floats:
        """Metres that the wind carries a puff between two times: the integral of its speed."""
        mean, sines = wind
        way = mean * (end_s - begin_s)
        for number, (amplitude, period_s) in enumerate(sines):
            omega = 2 * math.pi / period_s
            phase = _phase(self.seed, part, number)
            way = way + amplitude / omega * (np.cos(omega * begin_s + phase) - np.cos(omega * end_s + phase))
        return way


@cache
def _phase(seed: int, part: str, number: int) -> float:
    return 2 * math.pi * (seed_of(seed, part, number) % 10_007) / 10_007


def position_of(address: str) -> tuple[float, float]:
    """Where a probe stands: 'x,y' in metres, the name of a place, or for any other name a fixed spot of its own."""
    parts = address.split(",")
    if len(parts) == 2:
        try:
            x, y = float(parts[0]), float(parts[1])
        except ValueError:
            pass
        else:
            if math.isfinite(x) and math.isfinite(y):
                return x, y
    place = PLACES.get(address.strip().lower())
    if place is not None:
        return place
    spot = seed_of("spot", address.strip().lower())
    return WIDTH_M * (spot % 9973) / 9973, HEIGHT_M * ((spot >> 20) % 9973) / 9973
