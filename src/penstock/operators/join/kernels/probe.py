"""Probe a run: find its rows in each tuple's period that have, where there is a key, the tuple's key.

A run without a key stands in the order of time, so that every period is one range of it. Where the next stream shares an
equality (`Link`) with one that is bound, its rows are also kept by that key: the same layout as a run with a key, of row
numbers, made at the first look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.runs import Run, build_run

Edges: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]


def probe(run: Run, key: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Pairs (tuple, row of the run), by tuple; a tuple's rows in time order."""
    if run.keyed:
        return _probe_keyed(run.buckets, run.key, run.ts, (run.min_ts, run.max_ts), key, low, high)
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


# A bucket longer than this is entered by binary search: a hot key fills it, in time order.
_LONG = 16


@kernel
def _probe_keyed(
    buckets: Edges, keys: Ints, times: Ints, span: tuple[int, int], key: Ints, low: Ints, high: Ints
) -> tuple[Ints, Ints]:
    mask = len(buckets) - 2
    room = max(64, len(key))
    left, right = np.empty(room, np.int64), np.empty(room, np.int64)
    at = 0
    for i in range(len(key)):
        # Most runs overlap only some periods: the others need no look-up in the table.
        if low[i] > span[1] or high[i] < span[0]:
            continue
        wanted = key[i]
        bucket = wanted & mask
        row, end = buckets[bucket], buckets[bucket + 1]
        if end - row > _LONG:
            first, last = row, end
            while first < last:
                middle = (first + last) >> 1
                if times[middle] < low[i]:
                    first = middle + 1
                else:
                    last = middle
            row = first
            while last < end and times[last] <= high[i]:
                last += 1
            end = last
        while row < end:
            # The key first: it mostly differs, and then the time need not be fetched.
            if keys[row] == wanted and times[row] >= low[i] and times[row] <= high[i]:
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


@dataclass(frozen=True, slots=True)
class Link:
    """A key that some streams have in common: by stream the column that holds it as a number, None for the others."""

    columns: tuple[str | None, ...]

    def reaches(self, stream: int, bound: Sequence[int]) -> bool:
        """Whether a stream's partners can be looked up by what is bound."""
        return self.columns[stream] is not None and any(self.columns[b] is not None for b in bound)

    def number_column(self, stream: int) -> str:
        name = self.columns[stream]
        assert name is not None, "only streams that have the key are looked up by it"
        return name


def key_of(link: Link, made: Combinations, bound: Sequence[int], aliases: Sequence[str]) -> Ints:
    """The key that combinations look for: all streams bound so far agree on it."""
    owner = next(b for b in bound if link.columns[b] is not None)
    numbers: Ints = made.columns[f"{aliases[owner]}.{link.columns[owner]}"].to_numpy()
    return numbers


def by_key(run: Run, column: str) -> Run:
    """A run's rows by key and time; their `pos` is where they stand in the run."""
    name = ("by key", column)
    if name not in run.cache:
        run.cache[name] = build_run(run.first, run.end, run.ts, np.arange(len(run)), run.columns[column].to_numpy(), {})
    found: Run = run.cache[name]
    return found
