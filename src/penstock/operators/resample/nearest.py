"""RESAMPLE: values of one stream at the times of another, by binary search among its readings in order of time.

All edges are inclusive. Of readings at the same time the last to come counts; for MEAN all count. NULL is no reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Method: TypeAlias = Literal["previous", "linear", "mean"]


class Resampler:
    """Readings (in log order) and the times at which their values are asked for.

    With keys only readings of the same key count: `key_codes` of both sides, -1 where there is none.
    """

    def __init__(self, times: Ints, at: Ints, codes: Ints | None = None, at_codes: Ints | None = None) -> None:
        self._times, self._codes = times, codes
        self._at, self._at_codes = at, at_codes
        self._all: _Ordered | None = None

    def values(self, value: pa.Array, us: int, method: Method) -> pa.Array:
        """The value, one per reading, at each of the times; LINEAR and MEAN take and give DOUBLE."""
        readings, at = self._known(value), _At(self._at, self._at_codes)
        if method == "previous":
            found = readings.newest(at, us)
            rows = np.append(readings.rows, 0)[found]  # where there is none, any: it is masked
            return value.take(pa.array(rows, mask=found < 0))
        numbers = value.to_numpy(zero_copy_only=False)[readings.rows]
        return _mean(readings, numbers, at, us) if method == "mean" else _linear(readings, numbers, at, us)

    def _known(self, value: pa.Array) -> _Ordered:
        """The readings that have a value; those of values that are never NULL are put in order once."""
        if value.null_count:
            return _Ordered(self._times, self._codes, np.flatnonzero(value.is_valid()))
        if self._all is None:
            self._all = _Ordered(self._times, self._codes, np.arange(len(self._times)))
        return self._all


class _At:
    """The requested times, each with a key."""

    def __init__(self, times: Ints, codes: Ints | None) -> None:
        self.times, self.codes = times, codes


class _Ordered:
    """Readings by key and time, of the same time in the order in which they came. `rows` says which one is where."""

    def __init__(self, times: Ints, codes: Ints | None, rows: Ints) -> None:
        rows = rows if codes is None else rows[codes[rows] >= 0]
        # Logs are nearly in order of time, and keys are few: both sorts have little to do.
        self.rows = rows[np.argsort(times[rows], kind="stable")]
        self._marks = self.times = times[self.rows]
        if codes is not None:
            # Ranks instead of times: key and rank together always fit into 64 bits.
            steps = np.append(True, np.diff(self.times) > 0)[: len(self.times)]
            self._ranked, ranks = self.times[steps], np.cumsum(steps) - 1
            by_key = np.argsort(_narrow(codes[self.rows]), kind="stable")
            self.rows, self.times = self.rows[by_key], self.times[by_key]
            self._marks = self._mark(codes[self.rows], ranks[by_key])

    def _mark(self, codes: Ints, ranks: Ints) -> Ints:
        return codes * (len(self._ranked) + 1) + ranks

    def places(self, at: _At, apart_us: int, side: Literal["left", "right"]) -> Ints:
        """The first place of a reading of the same key at or after (left), or after (right), a time so far from `at`."""
        times = at.times + apart_us
        if at.codes is None:
            return np.searchsorted(self._marks, times, side)
        # Rows without a key come first, so that no reading lies between two of their times.
        return np.searchsorted(self._marks, self._mark(at.codes, np.searchsorted(self._ranked, times, side)))

    def newest(self, at: _At, us: int) -> Ints:
        """The newest reading from at - us to at; -1 where there is none."""
        first, end = self.places(at, -us, "left"), self.places(at, 0, "right")
        return np.where(end > first, end - 1, -1)

    def oldest(self, at: _At, us: int) -> Ints:
        """The oldest reading from at to at + us, the last to come of its time; -1 where there is none."""
        first, end = self.places(at, 0, "left"), self.places(at, us, "right")
        there = end > first
        found = np.full(len(first), -1)
        found[there] = np.searchsorted(self._marks, self._marks[first[there]], "right") - 1
        return found


def _narrow(codes: Ints) -> np.ndarray[Any, Any]:
    """The same numbers in 16 bits where they fit: those are sorted without comparisons."""
    return codes.astype(np.uint16) if codes.max(initial=0) < 1 << 16 else codes


def _linear(readings: _Ordered, values: Floats, at: _At, us: int) -> pa.Array:
    """The line between the nearest before and the nearest after; at a reading's own time its value."""
    low, high = readings.newest(at, us), readings.oldest(at, us)
    known = (low >= 0) & (high >= 0)
    low, high, times = low[known], high[known], at.times[known]
    begins, ends = readings.times[low], readings.times[high]
    out = np.zeros(len(known))
    with np.errstate(all="ignore"):
        share = (times - begins) / (ends - begins)
        line = values[low] + (values[high] - values[low]) * share
    out[known] = np.where(begins == times, values[low], line)
    return pa.array(out, mask=~known)


def _mean(readings: _Ordered, values: Floats, at: _At, us: int) -> pa.Array:
    first, end = readings.places(at, -us, "left"), readings.places(at, us, "right")
    counts = end - first
    known = counts > 0
    with np.errstate(all="ignore"):
        out = window_sums(values, first, end) / np.where(known, counts, 1)
    return pa.array(out, mask=~known)


def window_sums(values: Floats, first: Ints, end: Ints) -> Floats:
    """The sum of values[first:end] for many overlapping windows, in log(longest) passes over the values.

    Sums of 2, 4, 8 .. neighbours are put together by the bits of a window's length. Nothing is ever subtracted, so a
    huge value, an infinity or a NaN is felt in the windows that hold it and in no other.
    """
    sums, places, left = np.zeros(len(first)), first.copy(), end - first
    blocks, width = values, 1
    while True:
        chosen = np.flatnonzero(left & width)
        sums[chosen] += blocks[places[chosen]]
        places[chosen] += width
        if not (left >= 2 * width).any():
            return sums
        blocks = blocks[:-width] + blocks[width:]
        width *= 2


def key_codes(ours: Sequence[pa.Array], theirs: Sequence[pa.Array]) -> tuple[Ints, Ints]:
    """Numbers by which rows of two tables have the same key, column by column; -1 for a NULL, which equals nothing."""
    split = len(ours[0])
    codes = np.zeros(split + len(theirs[0]), np.int64)
    known = np.ones(len(codes), np.bool_)
    for pair in zip(ours, theirs, strict=True):
        encoded = pa.concat_arrays([_comparable(column) for column in pair]).dictionary_encode()
        known &= np.asarray(encoded.is_valid())
        own = encoded.indices.fill_null(0).to_numpy().astype(np.int64)
        if codes.any():  # a second column: numbers of pairs, dense again
            own = np.unique(codes * (len(encoded.dictionary) + 1) + own, return_inverse=True)[1]
        codes = own
    codes = np.where(known, codes, -1)
    return codes[:split], codes[split:]


def _comparable(column: pa.Array) -> pa.Array:
    """Numbers that are equal in SQL have the same bits: 0.0 and -0.0, and all NaN."""
    if not pa.types.is_floating(column.type):
        return column
    values = column.to_numpy(zero_copy_only=False) + 0.0
    bits = np.where(np.isnan(values), np.nan, values).astype(np.float64).view(np.int64)
    return pa.array(bits, mask=np.asarray(column.is_null()))
