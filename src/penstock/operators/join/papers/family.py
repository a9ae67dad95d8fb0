"""What the algorithms share: it runs a schedule and a search over sides, and returns index arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from penstock.operators.join.kernels.bounds import UNBOUNDED, Bounds
from penstock.operators.join.papers.conditions import Conditions, flatten
from penstock.operators.join.papers.schedules import Events, look_back, two_modes
from penstock.operators.join.papers.search import NO_TEST, SearchOptions, search
from penstock.operators.join.papers.side_arrays import PackedSides, original, pack
from penstock.operators.join.papers.sides import Counters, Int64s, Side

Run = Callable[[Sequence[Side], Bounds, Conditions | None, Counters], list[Int64s]]
"""How every algorithm is called.

Gives n arrays: combination k takes row out[s][k] of stream s. It has equal keys where sides have keys, satisfies all bounds
and conditions, and at least one of its rows is fresh; each such combination comes once, in no particular order.
"""


def evaluate_backward(
    sides: Sequence[Side],
    bounds: Bounds,
    conditions: Conditions | None,
    counters: Counters,
    options: SearchOptions,
    purge_every: int = 1,
) -> list[Int64s]:
    """Backward evaluation: each new tuple searches older tuples."""
    closed = bounds.matrix()

    def schedule(packed: PackedSides) -> Events:
        return look_back(packed.starts, packed.ts, closed, purge_every, counters.slots)

    options = options if options.upper is not None else replace(options, upper=closed)
    return _evaluate(sides, bounds, conditions, counters, schedule, options)


def evaluate_forward(
    sides: Sequence[Side],
    bounds: Bounds,
    conditions: Conditions | None,
    counters: Counters,
    reach: Int64s,
    options: SearchOptions,
) -> list[Int64s]:
    """Two modes, in which nothing that joins a tuple of stream j may be more than reach[j] later. No window is tested."""

    def schedule(packed: PackedSides) -> Events:
        return two_modes(packed.starts, packed.ts, reach, counters.slots)

    options = replace(options, upper=bounds.matrix(), windows=NO_TEST)
    return _evaluate(sides, bounds, conditions, counters, schedule, options)


def reaches(bounds: Bounds) -> Int64s:
    """Per stream how much later than its tuples a partner may be, at least 0."""
    after = [bounds.reach(j)[1] for j in range(bounds.streams)]
    return np.array([UNBOUNDED if a is None else a for a in after], np.int64)


def has_keys(sides: Sequence[Side]) -> bool:
    return sides[0].key is not None


def _evaluate(
    sides: Sequence[Side],
    bounds: Bounds,
    conditions: Conditions | None,
    counters: Counters,
    schedule: Callable[[PackedSides], Events],
    options: SearchOptions,
) -> list[Int64s]:
    if not all(map(len, sides)) or not any(side.fresh.any() for side in sides):
        return [np.empty(0, np.int64) for _ in sides]
    packed = pack(sides, bounds, conditions)
    orders = _orders(packed.counts if options.rarest_first else np.zeros_like(packed.counts), options.along)
    found = search(schedule(packed), packed, flatten(conditions), orders, counters.slots, options)
    return [original(packed, stream, rows) for stream, rows in enumerate(found)]


def _orders(counts: Int64s, along: Sequence[tuple[int, int]]) -> Int64s:
    """Per start stream the others in the order in which they are searched: along the edges given, the fewest rows first."""
    n = len(counts)
    orders = np.empty((n, n - 1), np.int64)
    for start in range(n):
        bound = [start]
        while len(bound) < n:
            rest = [j for j in range(n) if j not in bound]
            near = [j for j in rest if any((i, j) in along or (j, i) in along for i in bound)]
            bound.append(min(near or rest, key=lambda j: (counts[j], j)))
        orders[start] = bound[1:]
    return orders
