"""What the algorithms share: it runs a schedule and a search over sides, and returns index arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.operators.join.kernels.bounds import UNBOUNDED, Bounds
from penstock.operators.join.papers.conditions import Conditions, flatten
from penstock.operators.join.papers.schedules import Events, look_back, two_modes
from penstock.operators.join.papers.search import NO_TEST, STOP_AT_EDGE, search
from penstock.operators.join.papers.side_arrays import Packed, original, pack
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
    *,
    chained: bool,
    upper: Int64s | None = None,
    along: Sequence[tuple[int, int]] = (),
    rarest_first: bool = True,
    windows: int = STOP_AT_EDGE,
    purge_every: int = 1,
) -> list[Int64s]:
    """A new tuple looks back. `upper` are the windows that candidates are tested against, if not the closed ones.

    Streams are searched along the pairs of `along`, the one with the fewest rows first, or in the order of FROM.
    """
    closed = bounds.matrix()

    def schedule(packed: Packed) -> Events:
        return look_back(packed.starts, packed.ts, closed, purge_every, counters.slots)

    tested = closed if upper is None else upper
    return _evaluate(
        sides, bounds, conditions, counters, schedule, tested, chained, windows, False, along, rarest_first
    )


def evaluate_forward(
    sides: Sequence[Side],
    bounds: Bounds,
    conditions: Conditions | None,
    counters: Counters,
    *,
    chained: bool,
    reach: Int64s,
    refine: bool,
) -> list[Int64s]:
    """Two modes, in which nothing that joins a tuple of stream j may be more than reach[j] later."""

    def schedule(packed: Packed) -> Events:
        return two_modes(packed.starts, packed.ts, reach, counters.slots)

    return _evaluate(sides, bounds, conditions, counters, schedule, bounds.matrix(), chained, NO_TEST, refine)


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
    schedule: Callable[[Packed], Events],
    upper: Int64s,
    chained: bool,
    windows: int,
    refine: bool,
    along: Sequence[tuple[int, int]] = (),
    rarest_first: bool = True,
) -> list[Int64s]:
    if not all(map(len, sides)) or not any(side.fresh.any() for side in sides):
        return [np.empty(0, np.int64) for _ in sides]
    packed = pack(sides, bounds, conditions)
    found = search(
        schedule(packed),
        packed,
        flatten(conditions),
        upper,
        _orders(packed.counts if rarest_first else np.zeros_like(packed.counts), along),
        counters.slots,
        chained=chained,
        windows=windows,
        refine=refine,
    )
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
