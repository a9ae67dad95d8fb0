"""Series of which the truth is known: noise, gaps, periods, steps and spikes, each from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.operators.mining.series import Floats, Ints

SHAPES = ("sine", "saw", "square", "pulse")


def noise(rng: np.random.Generator, count: int, phi: float = 0.0) -> Floats:
    """White, or each value `phi` of the one before; the deviation is 1."""
    values: Floats = rng.normal(size=count)
    for i in range(1, count) if phi else ():
        values[i] = phi * values[i - 1] + values[i] * np.sqrt(1 - phi**2)
    return values


def walk(rng: np.random.Generator, count: int) -> Floats:
    return np.cumsum(rng.normal(size=count))


def with_gaps(rng: np.random.Generator, values: Floats, share: float) -> Floats:
    """Without about so many of its values, but with the first and the last."""
    out = np.where(rng.random(len(values)) < share, np.nan, values)
    out[[0, -1]] = values[[0, -1]]
    return out


def wave(shape: str, period: int, count: int) -> Floats:
    """One shape again and again; mean 0, deviation 1."""
    at = np.arange(count) % period / period
    values = {
        "sine": np.sin(2 * np.pi * at),
        "saw": at,
        "square": (at < 0.5).astype(float),
        "pulse": (at < 0.2).astype(float),
    }[shape]
    return (values - values.mean()) / values.std()


@dataclass(frozen=True, eq=False)
class Planted:
    """A series and the elements where something was planted."""

    values: Floats
    places: Ints


def steps(rng: np.random.Generator, size: float, phi: float, count: int, segments: int, shortest: int) -> Planted:
    """Noise whose mean rises or falls by `size` deviations at random places."""
    rest = count - segments * shortest
    cuts = np.sort(rng.integers(0, rest + 1, segments - 1))
    places = cuts + shortest * np.arange(1, segments)
    levels = np.cumsum(rng.choice([-1.0, 1.0], segments - 1)) * size
    means = np.concatenate([[0.0], levels])[np.searchsorted(places, np.arange(count), side="right")]
    return Planted(noise(rng, count, phi) + means, places)


def spikes(rng: np.random.Generator, values: Floats, sizes: tuple[float, float], number: int, first: int) -> Planted:
    """Single elements behind `first` that are so many deviations too high or low, some distance apart."""
    room = (len(values) - first) // number
    places = first + room * np.arange(number) + rng.integers(0, room // 2, number)
    out = values.copy()
    out[places] += rng.uniform(*sizes, number) * rng.choice([-1.0, 1.0], number)
    return Planted(out, places)


def matched(found: Ints, truth: Ints, within: int) -> int:
    """How many places of the truth have one found that is near and not another's, the nearest first."""
    pairs = sorted(
        (abs(int(f) - int(t)), int(t), int(f)) for f in found for t in truth if abs(int(f) - int(t)) <= within
    )
    left, taken = set(map(int, truth)), set()
    for _, t, f in pairs:
        if t in left and f not in taken:
            left.discard(t)
            taken.add(f)
    return len(taken)
