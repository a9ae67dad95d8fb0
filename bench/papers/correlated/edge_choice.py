"""Where the edges go when the interesting range moves: all anew (wholesale) or as few as possible (piecemeal)."""

from __future__ import annotations

import numpy as np

from bench.papers.base import Floats
from bench.papers.compilation import kernel
from bench.papers.correlated.mass import ESTIMATE, read_below

PIECEMEAL, WHOLESALE = 0, 1


@kernel
def fill(
    edges: Floats,
    below: Floats,
    count: int,
    begin: float,
    end: float,
    buckets: int,
    how: int,
    by_count: bool,
    out: Floats,
) -> int:
    """Write the edges of up to `buckets` buckets from `begin` to `end`, and say how many edges there are."""
    if how == WHOLESALE:
        if not (by_count and _even_by_count(edges, below, count, begin, end, buckets, out)):
            for i in range(buckets + 1):
                out[i] = begin + (end - begin) * i / buckets
            out[buckets] = end
        return _without_repeats(out, buckets + 1)
    found = 1
    out[0] = begin
    for i in range(count):
        if begin < edges[i] < end:
            out[found] = edges[i]
            found += 1
    out[found] = end
    found += 1
    # Two neighbours that are together less than an even share waste a bucket.
    share = _size(edges, below, count, begin, end, by_count) / buckets
    while found > 2 and _join_smallest(
        edges, below, count, out, found, by_count, np.inf if found - 1 > buckets else share
    ):
        found -= 1
    while found - 1 < buckets and _split_largest(edges, below, count, out, found, by_count):
        found += 1
    return found


@kernel
def rebalance(edges: Floats, below: Floats, count: int, last: int, room: int, out: Floats) -> int:
    """The edges up to the one numbered `last`, with the two smallest neighbours joined and the largest bucket cut."""
    found = last + 1
    out[:found] = edges[:found]
    if last >= room:
        _join_smallest(edges, below, count, out, found, True, np.inf)
        found -= 1
    return found + 1 if _split_largest(edges, below, count, out, found, True) else found


@kernel
def _below(edges: Floats, below: Floats, count: int, cut: float) -> float:
    table = np.empty((3, 3))
    read_below(edges, below, count, cut, table)
    return float(table[ESTIMATE, 0])


@kernel
def _size(edges: Floats, below: Floats, count: int, begin: float, end: float, by_count: bool) -> float:
    if by_count:
        return _below(edges, below, count, end) - _below(edges, below, count, begin)
    return end - begin


@kernel
def _join_smallest(
    edges: Floats, below: Floats, count: int, out: Floats, found: int, by_count: bool, below_size: float
) -> bool:
    """Drop the inner edge between the two neighbours that are smallest together, if they are below a size."""
    best, at = np.inf, 1
    for i in range(1, found - 1):
        size = _size(edges, below, count, out[i - 1], out[i + 1], by_count)
        if size < best:
            best, at = size, i
    if not best < below_size:
        return False
    for i in range(at, found - 1):
        out[i] = out[i + 1]
    return True


@kernel
def _split_largest(edges: Floats, below: Floats, count: int, out: Floats, found: int, by_count: bool) -> bool:
    """Cut the largest bucket in the middle. False when no number lies between its edges."""
    best, at, widest = -1.0, -1, 0.0
    for i in range(found - 1):
        middle = out[i] + (out[i + 1] - out[i]) / 2
        if not out[i] < middle < out[i + 1]:
            continue
        size = _size(edges, below, count, out[i], out[i + 1], by_count)
        if size > best or (size == best and out[i + 1] - out[i] > widest):
            best, at, widest = size, i, out[i + 1] - out[i]
    if at < 0:
        return False
    for i in range(found, at + 1, -1):
        out[i] = out[i - 1]
    out[at + 1] = out[at] + (out[at + 2] - out[at]) / 2
    return True


@kernel
def _even_by_count(
    edges: Floats, below: Floats, count: int, begin: float, end: float, buckets: int, out: Floats
) -> bool:
    """Edges that leave the same estimated count in every bucket; False when there is nothing to divide."""
    least, most = _below(edges, below, count, begin), _below(edges, below, count, end)
    if most <= least:
        return False
    out[0], out[buckets] = begin, end
    i, low, low_count = 0, begin, least
    for k in range(1, buckets):
        wanted = least + (most - least) * k / buckets
        while True:
            while i < count and edges[i] <= low:
                i += 1
            high = min(edges[i], end) if i < count else end
            high_count = _below(edges, below, count, high)
            if high_count >= wanted or high >= end:
                break
            low, low_count = high, high_count
        share = (wanted - low_count) / (high_count - low_count) if high_count > low_count else 1.0
        out[k] = low + share * (high - low)
    return True


@kernel
def _without_repeats(out: Floats, found: int) -> int:
    kept = 1
    for i in range(1, found):
        if out[i] > out[kept - 1]:
            out[kept] = out[i]
            kept += 1
    return kept
