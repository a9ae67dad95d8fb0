"""Schedules: when tuples enter and leave the join buffers, which is the difference between backward and forward evaluation.

In: the times of all streams, sorted. Out: events, one byte each: a stream admits its next tuple (which then looks for
partners in the other buffers), drops its oldest one, or skips its next one without looking at it. `search` acts on them.
Streams are swept in the order of time, so a row that comes late is where it belongs; a tuple admitted after it finds it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.bounds import UNBOUNDED
from penstock.operators.join.papers import sides
from penstock.operators.join.papers.sides import Int64s

Events = npt.NDArray[np.int8]
DROP, SKIP = 8, 16
"""Admitting stream s is event s, dropping its oldest tuple DROP + s, skipping its next tuple SKIP + s."""

DROPPED, SWEEP_TESTS, ADMISSIONS = sides.DROPPED, sides.SWEEP_TESTS, sides.ADMISSIONS
MODE_SWITCHES = sides.MODE_SWITCHES


@kernel
def look_back(starts: Int64s, ts: Int64s, upper: Int64s, purge_every: int, slots: Int64s) -> Events:
    """Every tuple is admitted in the order of time, streams in order where times are equal.

    A tuple is dropped when it is older by more than its window than the newest tuple of every other stream: a slower
    stream may still bring a partner. This is looked into after every `purge_every` tuples.
    """
    n = len(starts) - 1
    oldest, next_ = starts[:n].copy(), starts[:n].copy()
    newest = np.full(n, -UNBOUNDED, np.int64)
    events = np.empty(2 * len(ts), np.int8)
    count = 0
    for admitted in range(1, len(ts) + 1):
        first = -1
        for j in range(n):
            if next_[j] < starts[j + 1] and (first < 0 or ts[next_[j]] < ts[next_[first]]):
                first = j
        events[count] = first
        count += 1
        newest[first] = ts[next_[first]]
        next_[first] += 1
        if admitted % purge_every:
            continue
        for j in range(n):
            if j == first and purge_every == 1:
                continue  # its own newest tuple does not make others older
            limit = UNBOUNDED
            for k in range(n):
                if k != j:
                    limit = min(limit, newest[k] - upper[j, k])
            while oldest[j] < next_[j] and ts[oldest[j]] < limit:
                events[count] = DROP + j
                count += 1
                oldest[j] += 1
                slots[DROPPED] += 1
    return events[:count]


@kernel
def two_modes(starts: Int64s, ts: Int64s, reach: Int64s, slots: Int64s) -> Events:
    """Mode 1 finds a starting combination, Mode 2 fills its period.

    Nothing that joins a tuple of stream j is more than reach[j] later. Mode 1 moves each stream's oldest tuple on until the
    oldest ones are within reach of each other: what it leaves behind can join nothing any more. The period ends where the
    first of them reaches no further. Mode 2 admits what lies before that end; all buffered tuples are then within reach of
    each other. When the next tuple of every stream lies beyond, the tuple that ended the period has seen all its partners.
    """
    n = len(starts) - 1
    oldest, next_ = starts[:n].copy(), starts[:n].copy()
    events = np.empty(2 * len(ts), np.int8)
    count = 0
    while True:
        slots[MODE_SWITCHES] += 1
        moved = True
        while moved:
            moved = False
            latest = -2 * UNBOUNDED
            for j in range(n):
                if oldest[j] == starts[j + 1]:
                    return events[:count]
                latest = max(latest, ts[oldest[j]])
            for j in range(n):
                slots[SWEEP_TESTS] += 1
                while oldest[j] < starts[j + 1] and ts[oldest[j]] + reach[j] < latest:
                    slots[SWEEP_TESTS] += 1
                    slots[DROPPED] += 1
                    if oldest[j] == next_[j]:
                        next_[j] += 1
                        events[count] = SKIP + j
                    else:
                        events[count] = DROP + j
                    count += 1
                    oldest[j] += 1
                    moved = True
        end, last = 2 * UNBOUNDED, 0
        for j in range(n):
            if ts[oldest[j]] + reach[j] < end:
                end, last = ts[oldest[j]] + reach[j], j
            if oldest[j] == next_[j]:
                events[count] = j
                count += 1
                next_[j] += 1
        moved = True
        while moved:
            moved = False
            for j in range(n):
                if next_[j] < starts[j + 1] and ts[next_[j]] <= end:
                    events[count] = j
                    count += 1
                    next_[j] += 1
                    slots[ADMISSIONS] += 1
                    moved = True
        left = 0
        for j in range(n):
            left += starts[j + 1] - next_[j]
        if left == 0:
            return events[:count]
        events[count] = DROP + last
        count += 1
        oldest[last] += 1
        slots[DROPPED] += 1
