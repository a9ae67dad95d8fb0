"""Probing a run: which of its rows lie in each tuple's period and, where there is a key, have the tuple's key."""

from __future__ import annotations

import numpy as np

from penstock.operators.joins.keys import Ints
from penstock.operators.joins.runs import Run
from penstock.operators.kernel import kernel


def probe(run: Run, key: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Pairs (tuple, row of the run), by tuple; a tuple's rows in time order."""
    if run.keyed:
        return _probe_keyed(run.buckets, run.key, run.ts, key, low, high)
    begin, end = ranges(run, low, high)
    return expand(begin, end)


def ranges(run: Run, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Of a run without key: the rows [begin, end) inside each period. One range each, because rows are in time order."""
    begin = np.searchsorted(run.ts, low, side="left")
    return begin, np.maximum(begin, np.searchsorted(run.ts, high, side="right"))


@kernel
def expand(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    total = 0
    for i in range(len(begin)):
        total += end[i] - begin[i]
    left, right = np.empty(total, np.int64), np.empty(total, np.int64)
    at = 0
    for i in range(len(begin)):
        for row in range(begin[i], end[i]):
            left[at], right[at] = i, row
            at += 1
    return left, right


@kernel
def _probe_keyed(buckets: np.ndarray, keys: Ints, times: Ints, key: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    mask = len(buckets) - 2
    room = max(64, len(key))
    left, right = np.empty(room, np.int64), np.empty(room, np.int64)
    at = 0
    for i in range(len(key)):
        wanted = key[i]
        bucket = wanted & mask
        row, end = buckets[bucket], buckets[bucket + 1]
        if row == end or low[i] > high[i]:
            continue
        if end - row > 32:
            first, last = row, end
            while first < last:
                middle = (first + last) >> 1
                if times[middle] < low[i]:
                    first = middle + 1
                else:
                    last = middle
            row = first
        while row < end and times[row] <= high[i]:
            if keys[row] == wanted and times[row] >= low[i]:
                if at == room:
                    room *= 2
                    more_left, more_right = np.empty(room, np.int64), np.empty(room, np.int64)
                    more_left[:at] = left[:at]
                    more_right[:at] = right[:at]
                    left, right = more_left, more_right
                left[at], right[at] = i, row
                at += 1
            row += 1
    return left[:at], right[:at]
