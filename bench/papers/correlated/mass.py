"""How much lies below each edge: at least, as estimated, at most. The only thing that the buckets of m edges keep.

`below[i, q, w]` is the weight w (count, positive y, negative y) of the rows with x < edges[i]; q says which of the three. A
new edge inside a bucket has at least what lies below the bucket, at most what lies below its end, and in between what a
smooth curve through the edges says: on skewed data half the error of rows that lie evenly. So bounds are hard, however often
buckets are cut, and no mass is made or lost: the edges around keep theirs.
"""

from __future__ import annotations

import numpy as np

from bench.papers.base import Floats
from bench.papers.compilation import kernel

AT_LEAST, ESTIMATE, AT_MOST = range(3)


@kernel
def read_below(edges: Floats, below: Floats, count: int, cut: float, out: Floats) -> None:
    """What lies below any cut, as a table of the three sizes and the three weights."""
    i = int(np.searchsorted(edges[:count], cut, side="right")) - 1
    if i < 0:
        out[:] = 0.0
    elif i == count - 1 or edges[i] == cut:
        out[:] = below[i]
    else:
        share = (cut - edges[i]) / (edges[i + 1] - edges[i])
        out[AT_LEAST] = below[i, AT_LEAST]
        for w in range(3):
            out[ESTIMATE, w] = _between(edges, below, count, i, share, w)
        out[AT_MOST] = below[i + 1, AT_MOST]


@kernel
def _between(edges: Floats, below: Floats, count: int, i: int, share: float, w: int) -> float:
    """The estimate inside bucket i: a curve that rises as fast at the edges as the buckets around say, and never falls."""
    rise = below[i + 1, ESTIMATE, w] - below[i, ESTIMATE, w]
    width = edges[i + 1] - edges[i]
    first, last = rise, rise
    if i > 0:
        first = _slope(edges, below, i, w) * width
    if i + 2 < count:
        last = _slope(edges, below, i + 1, w) * width
    h = share * share * (3.0 - 2.0 * share)
    up = share * (1.0 - share) * ((1.0 - share) * first - share * last)
    return float(below[i, ESTIMATE, w] + rise * h + up)


@kernel
def _slope(edges: Floats, below: Floats, i: int, w: int) -> float:
    """How fast the curve rises at an inner edge: the harmonic mean of both sides, which keeps it from falling."""
    left_width, right_width = edges[i] - edges[i - 1], edges[i + 1] - edges[i]
    left = (below[i, ESTIMATE, w] - below[i - 1, ESTIMATE, w]) / left_width
    right = (below[i + 1, ESTIMATE, w] - below[i, ESTIMATE, w]) / right_width
    if left <= 0.0 or right <= 0.0:
        return 0.0
    a, b = 2.0 * right_width + left_width, right_width + 2.0 * left_width
    return float((a + b) / (a / left + b / right))


@kernel
def enter(edges: Floats, below: Floats, count: int, x: float, y: float) -> None:
    """A row comes: every edge above it has one more below."""
    for i in range(count - 1, -1, -1):
        if edges[i] <= x:
            return
        below[i, :, 0] += 1.0
        below[i, :, 1 if y >= 0 else 2] += abs(y)


@kernel
def leave(edges: Floats, below: Floats, count: int, x: float, y: float) -> None:
    """A row leaves, wherever the estimate had put it: what lies below higher edges is never less than below lower ones."""
    for i in range(count - 1, -1, -1):
        if edges[i] <= x:
            break
        below[i, :, 0] -= 1.0
        below[i, :, 1 if y >= 0 else 2] -= abs(y)
    for w in range(3):
        for i in range(count):
            least = below[i - 1, AT_LEAST, w] if i > 0 else 0.0
            below[i, AT_LEAST, w] = max(below[i, AT_LEAST, w], least)
        for i in range(count - 2, -1, -1):
            below[i, AT_MOST, w] = min(below[i, AT_MOST, w], below[i + 1, AT_MOST, w])
        floor = 0.0
        for i in range(count):
            middle = min(max(below[i, ESTIMATE, w], below[i, AT_LEAST, w]), below[i, AT_MOST, w])
            floor = max(floor, middle)
            below[i, ESTIMATE, w] = floor


@kernel
def recut(edges: Floats, below: Floats, count: int, new: Floats, new_count: int) -> None:
    """Replace the edges; whatever lies below the new ones is read from the old ones."""
    found = np.empty((new_count, 3, 3))
    for i in range(new_count):
        read_below(edges, below, count, new[i], found[i])
    edges[:new_count] = new[:new_count]
    below[:new_count] = found
