"""Buckets that follow the inner aggregate, row by row: fine where its threshold is and will be, coarse elsewhere."""

from __future__ import annotations

import math

import numpy as np

from bench.papers.base import Floats, Ints
from bench.papers.compilation import kernel
from bench.papers.correlated.cuts import cut_at
from bench.papers.correlated.edge_choice import PIECEMEAL, WHOLESALE, fill, rebalance
from bench.papers.correlated.mass import AT_LEAST, AT_MOST, ESTIMATE, enter, leave, read_below, recut

EQUI_DEPTH = 2
"""Beside piecemeal and wholesale: buckets of even counts over everything, wherever the threshold is."""
ROWS, PLUS, MINUS, X_SUM, X_SQUARES, X_ORIGIN, EDGES, LEAST = range(8)
"""Numbers that are kept beside the buckets. Sums of x are of its distance from the first x, for their precision."""
NUMBERS = 8
FINE = 0.4
"""The share of the buckets that are fine. More of them halve the error while the mean stays where it is, fewer of them quarter
it when the mean walks: the others then lie in its way, with even counts.
"""
ABOVE = 0.5
"""The share of the buckets above the threshold of an extreme that can leave: the next one may be far away."""
REACH = 2.0
"""Buckets are fine within so many standard errors of the mean. The paper's one leaves twice the error: the mean walks out."""


@kernel
def follow(
    x: Floats,
    y: Floats,
    starts: Ints,
    fresh: int,
    questions: Floats,
    of_mean: bool,
    sliding: bool,
    how: int,
    by_count: bool,
    edges: Floats,
    below: Floats,
    numbers: Floats,
    regions: Floats,
) -> Floats:
    """Three sizes of count and sum for each row from `fresh` on. Rows before it are in the window already."""
    # A minimum that never leaves only falls, and its upper threshold with it: rows above are dropped for good. In all other
    # cases the last bucket ends above everything.
    whole = sliding or of_mean or how == EQUI_DEPTH or questions[0, 0] != 0.0
    to_least = not of_mean and how != EQUI_DEPTH
    out = np.empty((len(x) - fresh, 3, 2))
    low, high = np.empty((3, 3)), np.empty((3, 3))
    least_rows = np.empty(len(x) + 1, np.int64)  # rows whose x is less than that of all later rows
    head, tail = 0, 0
    if sliding:
        # Counted anew from the window's rows at every call: what is subtracted within one leaves no trace in the next.
        numbers[:X_ORIGIN] = 0.0
    for i in range(fresh):
        tail = _push(least_rows, head, tail, x, i)
        _count(numbers, x[i], y[i], 1.0)
    gone = 0
    for i in range(fresh, len(x)):
        while gone < starts[i - fresh]:
            if gone < i:
                leave(edges, below, int(numbers[EDGES]), x[gone], y[gone])
                _count(numbers, x[gone], y[gone], -1.0)
            gone += 1
        if numbers[ROWS] == 0.0:
            numbers[:X_ORIGIN] = 0.0
            numbers[X_ORIGIN] = x[i]
        _count(numbers, x[i], y[i], 1.0)
        tail = _push(least_rows, head, tail, x, i)
        while least_rows[head] < gone:
            head += 1
        least = x[least_rows[head]]
        if not sliding:
            least = min(least, numbers[LEAST])
            numbers[LEAST] = least
        inner = numbers[X_ORIGIN] + numbers[X_SUM] / numbers[ROWS] if of_mean else least
        _cover(edges, below, numbers, x[i], least, whole, to_least)
        if to_least:
            _follow_least(edges, below, numbers, regions, questions, inner, whole, how, by_count)
        elif how != EQUI_DEPTH:
            _follow_mean(edges, below, numbers, regions, questions, inner, how, by_count)
        enter(edges, below, int(numbers[EDGES]), x[i], y[i])
        if how == EQUI_DEPTH or (by_count and not of_mean):
            _balance(edges, below, numbers, regions, how)
        read_below(edges, below, int(numbers[EDGES]), cut_at(questions[0], inner, -np.inf), low)
        if questions[1, 0] == 0.0:
            high[:, 0], high[:, 1], high[:, 2] = numbers[ROWS], numbers[PLUS], numbers[MINUS]
        else:
            read_below(edges, below, int(numbers[EDGES]), cut_at(questions[1], inner, np.inf), high)
        _subtract(low, high, out[i - fresh])
    return out


@kernel
def _push(rows: Ints, head: int, tail: int, x: Floats, i: int) -> int:
    while tail > head and x[rows[tail - 1]] >= x[i]:
        tail -= 1
    rows[tail] = i
    return tail + 1


@kernel
def _count(numbers: Floats, x: float, y: float, sign: float) -> None:
    far = x - numbers[X_ORIGIN]
    numbers[ROWS] += sign
    numbers[PLUS if y >= 0 else MINUS] += sign * abs(y)
    numbers[X_SUM] += sign * far
    numbers[X_SQUARES] += sign * far * far


@kernel
def _cover(edges: Floats, below: Floats, numbers: Floats, x: float, least: float, whole: bool, to_least: bool) -> None:
    """Stretch the outermost buckets to the new row; nothing lies below the least x of the window."""
    if numbers[EDGES] == 0.0:
        edges[0], edges[1] = x, np.nextafter(x, np.inf)
        below[:2] = 0.0
        numbers[EDGES] = 2.0
        return
    last = int(numbers[EDGES]) - 1
    if x < edges[0] and not to_least:
        edges[0] = x
    if whole and x >= edges[last]:
        edges[last] = np.nextafter(x, np.inf)
    if edges[0] <= least:
        below[0] = 0.0


@kernel
def _follow_least(
    edges: Floats,
    below: Floats,
    numbers: Floats,
    regions: Floats,
    questions: Floats,
    least: float,
    whole: bool,
    how: int,
    by_count: bool,
) -> None:
    """Buckets cover the least x to the threshold, and with `whole` some more the rest, by their counts."""
    threshold = max(cut_at(questions[0], least, -np.inf), cut_at(questions[1], least, -np.inf))
    threshold = max(threshold, float(np.nextafter(least, np.inf)))
    if regions[0, 0] == least and regions[0, 1] == threshold:
        return
    count, buckets = int(numbers[EDGES]), len(edges) - 1
    new = np.empty(2 * len(edges) + count + 4)
    old_least = regions[0, 0]
    regions[0, 0], regions[0, 1] = least, threshold
    if not whole and threshold <= old_least:
        # Everything so far lies above the new threshold: begin anew, which is exact.
        below[:] = 0.0
    top = edges[count - 1]
    if whole:
        near = buckets - max(1, int(buckets * ABOVE))
        found = fill(edges, below, count, least, threshold, near, how, by_count, new)
        if top > threshold:
            part = np.empty(len(edges) + count + 4)
            kept = fill(edges, below, count, threshold, top, buckets - near, PIECEMEAL, True, part)
            new[found : found + kept - 1] = part[1:kept]
            found += kept - 1
    else:
        found = fill(edges, below, count, least, threshold, buckets, how, by_count, new)
    recut(edges, below, count, new, found)
    below[0] = 0.0
    numbers[EDGES] = found


@kernel
def _follow_mean(
    edges: Floats,
    below: Floats,
    numbers: Floats,
    regions: Floats,
    questions: Floats,
    mean: float,
    how: int,
    by_count: bool,
) -> None:
    """Fine buckets around each threshold; they move when it comes near their border or when they have become too wide."""
    rows = numbers[ROWS]
    far = numbers[X_SUM] / rows
    spread = math.sqrt(max(0.0, numbers[X_SQUARES] / rows - far * far) / rows)
    if spread == 0.0:
        return
    stays = True
    for side in range(2):
        if questions[side, 0] != 0.0:
            cut, reach = cut_at(questions[side], mean, 0.0), REACH * spread * max(questions[side, 1], 1e-9)
            begin, end = regions[side]
            margin = (end - begin) / 8
            if not (begin + margin < cut < end - margin and end - begin < 4 * reach):
                stays = False
    if stays:
        return
    count, buckets = int(numbers[EDGES]), len(edges) - 1
    sides = int(questions[0, 0] + questions[1, 0])
    fine = max(1, min(int(buckets * FINE) // sides, (buckets - 1 - sides) // sides))
    room = buckets - fine * sides
    new, part = np.empty(2 * len(edges) + count + 4), np.empty(2 * len(edges) + count + 4)
    new[0] = edges[0]
    found, top = 1, edges[count - 1]
    outer = sides + 1  # stretches beside and between the fine ones that have to be covered yet
    total = below[count - 1, ESTIMATE, 0]
    for side in range(3):
        begin, end = top, top
        if side < 2:
            if questions[side, 0] == 0.0:
                continue
            cut, reach = cut_at(questions[side], mean, 0.0), REACH * spread * max(questions[side, 1], 1e-9)
            regions[side, 0], regions[side, 1] = cut - reach, cut + reach
            begin, end = min(max(cut - reach, new[found - 1]), top), min(max(cut + reach, new[found - 1]), top)
        # Coarse buckets by their counts, for the day when the mean comes this way; at least one for each stretch.
        outer -= 1
        if begin > new[found - 1]:
            share = 1.0
            if total > 0:
                share = (_estimate(edges, below, count, begin) - _estimate(edges, below, count, new[found - 1])) / total
            pieces = max(1, min(room - outer, round(share * (buckets - fine * sides))))
            if side == 2:
                pieces = max(1, room)
            kept = fill(edges, below, count, new[found - 1], begin, pieces, PIECEMEAL, True, part)
            new[found : found + kept - 1] = part[1:kept]
            found += kept - 1
            room -= kept - 1
        if end > begin:
            kept = fill(edges, below, count, begin, end, fine, how, by_count, part)
            new[found : found + kept - 1] = part[1:kept]
            found += kept - 1
    recut(edges, below, count, new, found)
    numbers[EDGES] = found


@kernel
def _estimate(edges: Floats, below: Floats, count: int, cut: float) -> float:
    table = np.empty((3, 3))
    read_below(edges, below, count, cut, table)
    return float(table[ESTIMATE, 0])


@kernel
def _balance(edges: Floats, below: Floats, numbers: Floats, regions: Floats, how: int) -> None:
    """Where buckets are to have even counts: when one has grown beyond twice its share, cut anew."""
    count, room = int(numbers[EDGES]), len(edges) - 1
    end = count - 1  # of the buckets that share evenly: those below the threshold
    if how != EQUI_DEPTH and edges[end] > regions[0, 1]:
        end = int(np.searchsorted(edges[:count], regions[0, 1]))
        room -= count - 1 - end
    largest = 0.0
    for i in range(end):
        largest = max(largest, below[i + 1, ESTIMATE, 0] - below[i, ESTIMATE, 0])
    if largest <= max(2.0, 2.0 * below[end, ESTIMATE, 0] / room):
        return
    new = np.empty(len(edges) + count + 4)
    if how == WHOLESALE:
        found = fill(edges, below, count, edges[0], edges[end], room, how, True, new)
    else:
        found = rebalance(edges, below, count, end, room, new)
    for i in range(end + 1, count):
        new[found] = edges[i]
        found += 1
    recut(edges, below, count, new, found)
    numbers[EDGES] = found


@kernel
def _subtract(low: Floats, high: Floats, out: Floats) -> None:
    """Count and sum between two cuts."""
    for q in range(3):
        other = AT_MOST if q == AT_LEAST else AT_LEAST if q == AT_MOST else ESTIMATE
        out[q, 0] = max(0.0, high[q, 0] - low[other, 0])
        out[q, 1] = max(0.0, high[q, 1] - low[other, 1]) - max(0.0, high[other, 2] - low[q, 2])
