"""How many results a join must have, counted without the join: by arithmetic on sorted times, and by brute force."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Ints = np.ndarray
BIG = 1 << 44
"""Further apart than any two times of a workload: one number sorts by key and then by time."""


def count_equal(ts: Sequence[Ints], keys: Sequence[Ints], window_us: int) -> int:
    """Combinations of one tuple per stream with equal keys, all within the window of each other.

    Each is counted at its earliest tuple: of every other stream, as many as follow it with its key within the window.
    """
    place = np.concatenate([k.astype(np.int64) * BIG + t for k, t in zip(keys, ts, strict=True)])
    stream = np.concatenate([np.full(len(t), i) for i, t in enumerate(ts)])
    order = np.argsort(place, kind="stable")
    place, stream = place[order], stream[order]
    after = np.arange(1, len(place) + 1)
    end = np.searchsorted(place, place + window_us, side="right")
    counts = np.ones(len(place), np.int64)
    for other in range(len(ts)):
        before = np.concatenate(([0], np.cumsum(stream == other)))
        counts *= np.where(stream == other, 1, before[end] - before[after])
    return int(counts.sum())


def count_near(ts: Sequence[Ints], x: Sequence[Ints], y: Sequence[Ints], window_us: int, distance: float) -> int:
    """Triples of points, one per stream, pairwise nearer than the distance and within the window: all are looked at."""
    total = 0
    for t, px, py in zip(ts[0], x[0], y[0], strict=True):
        near = []
        for other in (1, 2):
            first, end = np.searchsorted(ts[other], [t - window_us, t + window_us + 1])
            dx, dy = x[other][first:end] - px, y[other][first:end] - py
            near.append(first + np.flatnonzero(np.sqrt(dx * dx + dy * dy) < distance))
        b, c = near[0][:, None], near[1][None, :]
        if b.size and c.size:
            dx, dy = x[1][b] - x[2][c], y[1][b] - y[2][c]
            together = np.abs(ts[1][b] - ts[2][c]) <= window_us
            total += int((together & (np.sqrt(dx * dx + dy * dy) < distance)).sum())
    return total
