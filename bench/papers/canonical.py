"""Bucket sizes of an exponential histogram: the l-canonical form of its total, and insertion in batches by it.

Every size (a power of two) below the largest occurs l or l + 1 times, the largest 1 to l + 1 times. A number has exactly
one such form, so the total says all sizes, and only the buckets' times have to be kept. Inserting unit by unit and merging
as the rule demands leads to the same buckets: a merge joins neighbours and keeps the newer time, hence a bucket's time is
the time of its newest unit, wherever that unit came from.
"""

from __future__ import annotations

import numpy as np

from bench.papers.base import Ints
from bench.papers.compilation import kernel


@kernel
def canonical_form(total: int, least: int) -> Ints:
    """How many buckets of size 1, 2, 4, ... `total` units make when every size but the largest occurs `least` or one more times."""
    top = 0
    while (least << (top + 1)) <= total + least:
        top += 1
    rest = total - ((1 << top) - 1) * least
    counts = np.empty(top + 1, np.int64)
    for i in range(top):
        counts[i] = least + ((rest >> i) & 1)
    counts[top] = rest >> top
    return counts if counts[top] > 0 else counts[:top]


@kernel
def inserted(held: Ints, total: int, least: int, values: Ints, times: Ints, window: int) -> tuple[Ints, int]:
    """Times of the buckets, newest first, and their total, after values came at their times and old buckets left.

    `window` 0 never ends. Exactly what insertion of one unit after the other gives.
    """
    first, count = 0, len(values)
    while first < count:
        if window > 0:
            held, total = expired(held, total, least, times[first] - window)
        end = count
        if window > 0 and len(held) > 0:
            # Until the oldest bucket leaves, nothing leaves: merges can only make it leave later.
            end = first + np.searchsorted(times[first:], held[-1] + window)
        elif window > 0:
            end = first + np.searchsorted(times[first:], times[first] + window)
        held, total = _joined(held, total, least, values[first:end], times[first:end])
        first = end
    return held, total


@kernel
def expired(held: Ints, total: int, least: int, until: int) -> tuple[Ints, int]:
    """Without the buckets whose time is `until` or earlier."""
    kept = len(held)
    if kept == 0 or held[kept - 1] > until:
        return held, total
    counts = canonical_form(total, least)
    size, of_size = len(counts) - 1, counts[-1]
    while kept > 0 and held[kept - 1] <= until:
        if of_size == 0:
            size -= 1
            of_size = counts[size]
        total -= 1 << size
        of_size -= 1
        kept -= 1
    return held[:kept].copy(), total


@kernel
def _joined(held: Ints, total: int, least: int, values: Ints, times: Ints) -> tuple[Ints, int]:
    added = values.sum()
    if added == 0:
        return held, total
    old_counts, counts = canonical_form(total, least), canonical_form(total + added, least)
    out = np.empty(counts.sum(), np.int64)
    at = 0  # units newer than the bucket to come
    row, reached = len(values) - 1, values[len(values) - 1]  # the batch's row that holds the unit `at`
    old, old_at, old_size = 0, added, 0  # the first held bucket that begins at `at` or later
    old_left = old_counts[0] if len(old_counts) > 0 else 0
    k = 0
    for size in range(len(counts)):
        for _ in range(counts[size]):
            if at < added:
                while reached <= at:
                    row -= 1
                    reached += values[row]
                out[k] = times[row]
            else:
                while old_at < at:
                    if old_left == 0:
                        old_size += 1
                        old_left = old_counts[old_size]
                    old_at += 1 << old_size
                    old_left -= 1
                    old += 1
                out[k] = held[old]
            at += 1 << size
            k += 1
    return out, total + added


@kernel
def total_since(held: Ints, total: int, least: int, since: int) -> tuple[int, int]:
    """Units in the buckets whose time is `since` or later, and the size of the oldest of them (0: none)."""
    found, last, k = 0, 0, 0
    counts = canonical_form(total, least)
    for size in range(len(counts)):
        for _ in range(counts[size]):
            if held[k] < since:
                return found, last
            last = 1 << size
            found += last
            k += 1
    return found, last


@kernel
def interleaved(a: Ints, a_total: int, b: Ints, b_total: int, least: int) -> tuple[Ints, Ints]:
    """Sizes and times of the buckets of both, oldest first: values to insert into an empty histogram."""
    sizes, times = np.empty(len(a) + len(b), np.int64), np.empty(len(a) + len(b), np.int64)
    a_sizes, b_sizes = bucket_sizes(a_total, least), bucket_sizes(b_total, least)
    i, j = len(a) - 1, len(b) - 1
    for k in range(len(sizes)):
        if j < 0 or (i >= 0 and a[i] <= b[j]):
            sizes[k], times[k] = a_sizes[i], a[i]
            i -= 1
        else:
            sizes[k], times[k] = b_sizes[j], b[j]
            j -= 1
    return sizes, times


@kernel
def bucket_sizes(total: int, least: int) -> Ints:
    """Size of each bucket, newest first."""
    counts = canonical_form(total, least)
    sizes = np.empty(counts.sum(), np.int64)
    k = 0
    for size in range(len(counts)):
        for _ in range(counts[size]):
            sizes[k] = 1 << size
            k += 1
    return sizes


NO_TIMES = np.empty(0, np.int64)
