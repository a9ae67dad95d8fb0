"""The search for partners that all algorithms share, and the schedules that distinguish backward and forward evaluation.

A schedule says when tuples enter and leave the join buffers, as events of one byte each: a stream admits its next tuple,
drops its oldest one, or skips its next one without looking at it. Streams are swept in the order of time, so a row that comes
late is where it belongs; a tuple admitted after it finds it. An admitted tuple starts an iteration: the other streams follow
in a fixed order, the newest candidate first, then the search goes back and takes the next one. A buffer is walked row by row,
or along the chain of the key's bucket. A combination is found in the iteration of the tuple that was admitted last, and only
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.bounds import UNBOUNDED
from penstock.operators.join.kernels.program import DEEPEST
from penstock.operators.join.papers import sides
from penstock.operators.join.papers.conditions import CompiledConditions, holds
from penstock.operators.join.papers.side_arrays import PackedSides
from penstock.operators.join.papers.sides import Bools, Float64s, Int64s

Events = npt.NDArray[np.int8]
DROP, SKIP = 8, 16
"""Admitting stream s is event s, dropping its oldest tuple DROP + s, skipping its next tuple SKIP + s."""

DROPPED, SWEEP_TESTS, ADMISSIONS = sides.DROPPED, sides.SWEEP_TESTS, sides.ADMISSIONS
MODE_SWITCHES = sides.MODE_SWITCHES
ITERATIONS, WINDOW_TESTS, KEY_COMPARISONS = sides.ITERATIONS, sides.WINDOW_TESTS, sides.KEY_COMPARISONS
PREDICATE_TESTS, REFINEMENTS, RESULTS = sides.PREDICATE_TESTS, sides.REFINEMENTS, sides.RESULTS
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

NO_TEST, STOP_AT_EDGE, TEST_ALL = range(3)
"""Windows of candidates: known to hold; tested, and the first one too old ends the walk; tested one and all."""


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


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How an algorithm searches: along the chains of equal keys or not, and which windows it tests candidates against.

    `upper` are these windows (None: the closed ones), `windows` is one of the three above, `refine` tests every pair of a
    finished combination. Streams are searched along the pairs of `along`, the one with the fewest rows first, or in the
    order of FROM.
    """

    chained: bool
    upper: Int64s | None = None
    windows: int = STOP_AT_EDGE
    refine: bool = False
    along: Sequence[tuple[int, int]] = ()
    rarest_first: bool = True


def search(
    events: Events,
    packed: PackedSides,
    conditions: CompiledConditions,
    orders: Int64s,
    slots: Int64s,
    options: SearchOptions,
) -> Int64s:
    """Rows of all combinations found, one line per stream."""
    assert options.upper is not None
    rows = (packed.starts, packed.ts, packed.key, packed.fresh, packed.values, packed.offsets)
    programs = (conditions.code, conditions.first, conditions.constants, _due(conditions.needs, orders))
    tests = (options.upper, options.chained, options.windows, options.refine)
    return _search(events, rows, programs, orders, tests, slots)


def _due(needs: Int64s, orders: Int64s) -> Int64s:
    """Per start stream and condition the place in the order at which its last stream is bound; -1 for the start itself."""
    due = np.empty((len(orders), len(needs)), np.int64)
    for start, order in enumerate(orders):
        for number, mask in enumerate(needs):
            due[start, number] = max((at for at, j in enumerate(order) if int(mask) >> int(j) & 1), default=-1)
    return due


@kernel
def _search(
    events: Events,
    rows: tuple[Int64s, Int64s, Int64s, Bools, Float64s, Int64s],
    programs: tuple[Int64s, Int64s, Float64s, Int64s],
    orders: Int64s,
    tests: tuple[Int64s, bool, int, bool],
    slots: Int64s,
) -> Int64s:
    starts, ts, key, fresh, values, offsets = rows
    code, first, constants, due = programs
    upper, chained, windows, refine = tests
    n = len(starts) - 1
    last = n - 2
    keyed = len(key) == len(ts)
    conditions = due.shape[1]
    oldest, next_ = starts[:n].copy(), starts[:n].copy()
    newest_fresh = np.full(n, -1, np.int64)
    bits = 4
    while chained and (1 << bits) < 2 * len(ts) // n:
        bits += 1
    shift = np.uint64(64 - bits)
    # The buckets of all streams for one hash lie side by side: finding partners everywhere touches one cache line.
    buckets = np.full(n << bits if chained else 0, -1, np.int32)
    older = np.empty(len(ts) if chained else 0, np.int32)
    out = np.empty((n, 1024), np.int64)
    found = 0
    chosen, walk = np.zeros(n, np.int64), np.zeros(n, np.int64)
    low, high = np.zeros(n, np.int64), np.zeros(n, np.int64)
    has_fresh, needs_fresh = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    stack = np.empty(DEEPEST)
    iterations, window_tests, key_comparisons, predicate_tests, refinements = 0, 0, 0, 0, 0
    for event in events:
        if event >= DROP:
            if event >= SKIP:
                next_[event - SKIP] += 1
                oldest[event - SKIP] += 1
            else:
                oldest[event - DROP] += 1
            continue
        start = int(event)
        row = next_[start]
        next_[start] += 1
        bucket = 0
        if chained:
            bucket = int((np.uint64(key[row]) * _GOLDEN) >> shift) * n
            older[row] = buckets[bucket + start]
            buckets[bucket + start] = row
        worth_it = fresh[row]
        if worth_it:
            newest_fresh[start] = row
        else:
            for j in range(n):
                worth_it |= j != start and newest_fresh[j] >= oldest[j]
        if chained and worth_it:
            for j in range(n):
                worth_it &= buckets[bucket + j] >= oldest[j]
        if not worth_it:
            continue
        iterations += 1
        chosen[start] = row
        has_fresh[0] = fresh[row]
        passes = True
        for c in range(conditions):
            if passes and due[start, c] < 0:
                predicate_tests += 1
                passes = holds(code, first[c], first[c + 1], constants, values, offsets, chosen, stack)
        depth, enter = 0 if passes else -1, True
        while depth >= 0:
            j = orders[start, depth]
            if enter:
                enter = False
                if windows != NO_TEST:
                    t = ts[row]
                    earliest, latest = t - upper[j, start], t + upper[start, j]
                    for d in range(depth):
                        k = orders[start, d]
                        t = ts[chosen[k]]
                        earliest = max(earliest, t - upper[j, k])
                        latest = min(latest, t + upper[k, j])
                    low[depth], high[depth] = earliest, latest
                walk[depth] = buckets[bucket + j] if chained else next_[j] - 1
                if has_fresh[depth]:
                    needs_fresh[depth] = False
                else:
                    later = False
                    for d in range(depth + 1, n - 1):
                        k = orders[start, d]
                        later |= newest_fresh[k] >= oldest[k]
                    needs_fresh[depth] = not later
            at, floor = walk[depth], oldest[j]
            candidate = -1
            # A chain ends at the first row that was dropped: older ones were dropped before it.
            while at >= floor:
                here = at
                at = int(older[here]) if chained else here - 1
                if windows != NO_TEST:
                    window_tests += 1
                    t = ts[here]
                    if t < low[depth]:
                        if windows == STOP_AT_EDGE:
                            at = -1
                        continue
                    if t > high[depth]:
                        continue
                if keyed:
                    key_comparisons += 1
                    if key[here] != key[row]:
                        continue
                if needs_fresh[depth] and not fresh[here]:
                    continue
                chosen[j] = here
                passes = True
                for c in range(conditions):
                    if passes and due[start, c] == depth:
                        predicate_tests += 1
                        passes = holds(code, first[c], first[c + 1], constants, values, offsets, chosen, stack)
                if passes:
                    candidate = here
                    break
            walk[depth] = at
            if candidate < 0:
                depth -= 1
                continue
            if depth < last:
                has_fresh[depth + 1] = has_fresh[depth] or fresh[candidate]
                depth += 1
                enter = True
                continue
            if refine:
                for i in range(n):
                    for k in range(n):
                        if passes and i != k:
                            refinements += 1
                            passes = ts[chosen[k]] - ts[chosen[i]] <= upper[i, k]
                if not passes:
                    continue
            if found == out.shape[1]:
                grown = np.empty((n, 2 * found), np.int64)
                grown[:, :found] = out
                out = grown
            for k in range(n):
                out[k, found] = chosen[k]
            found += 1
    slots[ITERATIONS] += iterations
    slots[WINDOW_TESTS] += window_tests
    slots[KEY_COMPARISONS] += key_comparisons
    slots[PREDICATE_TESTS] += predicate_tests
    slots[REFINEMENTS] += refinements
    slots[RESULTS] += found
    return out[:, :found]
