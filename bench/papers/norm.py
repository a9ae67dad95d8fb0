"""Lp norms of how often each value occurs in a sliding window, 1 <= p <= 2: p-stable sketches in buckets."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.papers.base import Arrays, Estimate, Floats, Ints, Synopsis, Values
from bench.papers.compilation import kernel
from penstock.errors import error
from penstock.operators.aggregate.approximate.base import hashes_of
from penstock.operators.aggregate.approximate.norm import median_and_spread, stable_numbers

Singles = npt.NDArray[np.float32]
_BATCH = 2048
"""Rows sketched at once: bounds the memory of a large batch."""


class Norm(Synopsis):
    """(sum over values of occurrences^p)^(1/p). With p = 2 its square is the size of the stream's join with itself.

    Sketches add up, so two neighbours become one when together they are at most 1/k of everything newer (to the power p).
    The bucket that the window's edge cuts is left out, hence an underestimate by a factor of at most
    1 + (2^(p-1)/k)^(1/p); a sketch of r rows adds its own random error, two standard errors in the bounds.
    """

    kind = "norm"

    def __init__(self, *, p: float = 2.0, k: int = 8, rows: int = 128, window: int | None = None) -> None:
        super().__init__(p=p, k=k, rows=rows, window=window)
        if not 1 <= p <= 2 or k < 1 or rows < 8:
            raise error("invalid_parameter", detail=f"a norm needs 1 <= p <= 2 (it is {p}), k >= 1 and 8 rows or more")
        self.p, self.k, self.rows = float(p), k, rows
        self.median, spread = median_and_spread(self.p)
        self.share = 2 * spread / math.sqrt(rows)
        self.sketches: Singles = np.empty((0, rows), np.float32)
        self.firsts: Ints = np.empty(0, np.int64)
        self.lasts: Ints = np.empty(0, np.int64)  # ascending

    def answers(self, window: int | None = None) -> list[Estimate]:
        since = self.oldest_inside(window)
        begin = int(np.searchsorted(self.lasts, since))
        whole = self.firsts[begin:] >= since
        if not len(whole):
            return [Estimate(0.0, 0.0, 0.0)]
        sketch = self.sketches[begin:][whole].sum(axis=0, dtype=np.float64)
        value = float(np.median(np.abs(sketch))) / self.median
        cut = 0.0 if whole.all() else (2 ** (self.p - 1) / self.k) ** (1 / self.p)
        return [Estimate(value, value / (1 + self.share), value / max(1e-9, 1 - self.share) * (1 + cut), 0.95)]

    @property
    def nbytes(self) -> int:
        return self.sketches.nbytes + self.firsts.nbytes + self.lasts.nbytes

    def _insert(self, values: Values, times: Ints) -> None:
        hashes = hashes_of(pa.array(values)).view(np.uint64)
        for begin in range(0, len(hashes), _BATCH):
            part = slice(begin, begin + _BATCH)
            keys, where = np.unique(hashes[part], return_inverse=True)
            sketches = stable_numbers(keys, self.rows, self.p).astype(np.float32)[where]
            self._add(sketches, times[part], times[part])

    def _add(self, sketches: Singles, firsts: Ints, lasts: Ints) -> None:
        sketches = np.concatenate([self.sketches, sketches])
        firsts, lasts = np.concatenate([self.firsts, firsts]), np.concatenate([self.lasts, lasts])
        if (lasts[1:] < lasts[:-1]).any():
            order = np.argsort(lasts, kind="stable")
            sketches, firsts, lasts = sketches[order], firsts[order], lasts[order]
        self.sketches, self.firsts, self.lasts = compressed(sketches, firsts, lasts, self.p, self.k)

    def _expire(self) -> None:
        begin = int(np.searchsorted(self.lasts, self.oldest_inside(None)))
        if begin:
            self.sketches, self.firsts = self.sketches[begin:].copy(), self.firsts[begin:].copy()
            self.lasts = self.lasts[begin:].copy()

    def _absorb(self, other: Self) -> None:
        self._add(other.sketches, other.firsts, other.lasts)

    def _state(self) -> Arrays:
        return {"sketches": self.sketches, "firsts": self.firsts, "lasts": self.lasts}

    def _restore(self, arrays: Arrays) -> None:
        self.sketches, self.firsts, self.lasts = (arrays[n].copy() for n in ("sketches", "firsts", "lasts"))


@kernel
def compressed(sketches: Singles, firsts: Ints, lasts: Ints, p: float, k: int) -> tuple[Singles, Ints, Ints]:
    """Merge neighbours, newest first, while together they are at most 1/k of everything newer, to the power p."""
    count, rows = sketches.shape
    kept, kept_firsts, kept_lasts = np.empty_like(sketches), np.empty_like(firsts), np.empty_like(lasts)
    out = count
    newer, both = np.zeros(rows), np.empty(rows)
    limit = 0.0  # the greatest median that two neighbours may have together; a common factor of all medians cancels
    for i in range(count - 1, -1, -1):
        if out < count:
            both[:] = kept[out]
            both += sketches[i]
            if np.median(np.abs(both)) <= limit:
                kept[out] = both.astype(np.float32)
                kept_firsts[out] = min(kept_firsts[out], firsts[i])
                continue
            newer += kept[out]
            limit = np.median(np.abs(newer)) / k ** (1.0 / p)
        out -= 1
        kept[out], kept_firsts[out], kept_lasts[out] = sketches[i], firsts[i], lasts[i]
    return kept[out:].copy(), kept_firsts[out:].copy(), kept_lasts[out:].copy()


def exact_norm(values: Values, p: float) -> Floats:
    """By the definition, for tests and measurements."""
    _, counts = np.unique(values, return_counts=True)
    norm: Floats = (counts.astype(np.float64) ** p).sum() ** (1 / p)
    return norm
