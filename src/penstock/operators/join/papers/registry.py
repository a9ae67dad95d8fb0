"""The window join algorithms of the papers: how each evaluates a step, what a hint may ask for, and what EXPLAIN says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.operators.join.kernels.bounds import UNBOUNDED, Bounds, form
from penstock.operators.join.papers.conditions import Conditions, flatten
from penstock.operators.join.papers.search import NO_TEST, Events, SearchOptions, look_back, search, two_modes
from penstock.operators.join.papers.side_arrays import ROWS_PER_PART, PackedSides, original, pack, parts_of
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


def nested_loop(
    sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters
) -> list[Int64s]:
    """NLW-join: a new tuple looks back through the join buffers, one nested loop per stream.

    Candidates come newest first, each is tested against the period that the tuples chosen so far leave, and the first one
    too old ends its loop. For any predicate; equality is compared like a condition.
    """
    return evaluate_backward(sides, bounds, conditions, counters, SearchOptions(chained=False))


def hash_join(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """HW-join: a new tuple looks back through hash tables on the key instead of whole buffers. Every side has a key.

    The tuples of a bucket form a chain in the order of time, so a probe stops at the period's edge. Buckets without probes
    need no cleaning of their own: a chain ends at the first tuple that its stream has dropped.
    """
    if sum(map(len, sides)) <= ROWS_PER_PART:
        return evaluate_backward(sides, bounds, conditions, counters, SearchOptions(chained=True))
    found: list[list[Int64s]] = [[] for _ in sides]
    for part, rows in parts_of(sides):
        combinations = evaluate_backward(part, bounds, conditions, counters, SearchOptions(chained=True))
        for out, of_side, here in zip(found, rows, combinations, strict=True):
            out.append(of_side[here])
    return [np.concatenate(out) for out in found]


def backward(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """BEW-join: backward evaluation, by hash chains where there is a key, else by nested loops."""
    run = hash_join if has_keys(sides) else nested_loop
    return run(sides, bounds, conditions, counters)


def extended(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """Extended BEW-join for graphs and paths: a new tuple looks back along the stated windows, stream by stream.

    A candidate is tested against the windows of its own constraint set only: those that the query states between its stream
    and the streams bound so far. A tuple is dropped when it is older than its window allows against the newest tuple of
    every stream; a tuple that violates some of them stays. Here the derived windows count as well: on a path a-b-c with
    windows of 5, a tuple of a at 0 is out of reach of b's newest at 6, but b at 5 and a late c at 10 still make a
    combination with it.
    """
    stated = np.full((bounds.streams, bounds.streams), UNBOUNDED, np.int64)
    np.fill_diagonal(stated, 0)
    for i, j, low, high in bounds.given:
        stated[i, j] = UNBOUNDED if high is None else high
        stated[j, i] = UNBOUNDED if low is None else -low
    along = [(i, j) for i, j, _, _ in bounds.given]
    options = SearchOptions(chained=has_keys(sides), upper=stated, along=along)
    return evaluate_backward(sides, bounds, conditions, counters, options)


def forward(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """MW-join, or FEW-join: forward evaluation in two modes, with nested loops (`search.two_modes` has the modes).

    Mode 2 joins an admitted tuple with whole buffers and makes no window test: what is buffered lies within the window. That
    is exact where everything after a stream's tuple has the same window: uniform cliques, and most pairs (`covers`).
    """
    return evaluate_forward(sides, bounds, conditions, counters, reaches(bounds), SearchOptions(chained=False))


def forward_hash(
    sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters
) -> list[Int64s]:
    """FEW-join with hash tables: the two modes of `forward`, but Mode 2 walks the chain of the key's bucket.

    Tuples are numbered in the order in which they entered their buffer, so Mode 1 drops from the old end by moving one
    number, and every chain ends there.
    """
    return evaluate_forward(sides, bounds, conditions, counters, reaches(bounds), SearchOptions(chained=True))


def covers(bounds: Bounds) -> bool:
    """Whether each stream has one window for all that comes after it; otherwise `gca` and `lca` refine."""
    for j, row in enumerate(bounds.upper):
        after = {upper for k, upper in enumerate(row) if k != j}
        if len(after) != 1 or any(upper is not None and upper < 0 for upper in after):
            return False
    return True


def gca(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """GCA, the global conservative approach: forward evaluation with the largest window for all streams, then refinement.

    Any form of bounds: finished combinations are tested pair by pair.
    """
    largest = bounds.largest()
    reach = np.full(len(sides), UNBOUNDED if largest is None else largest, np.int64)
    options = SearchOptions(chained=has_keys(sides), refine=True)
    return evaluate_forward(sides, bounds, conditions, counters, reach, options)


def lca(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """LCA, the local conservative approach: forward evaluation with each stream's own largest window, then refinement.

    The period ends where the first starting tuple reaches no further with its own stream's largest window, so the buffers
    are never larger than those of `gca`. Any form of bounds: finished combinations are tested pair by pair.
    """
    options = SearchOptions(chained=has_keys(sides), refine=True)
    return evaluate_forward(sides, bounds, conditions, counters, reaches(bounds), options)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm for window joins. `one_window`: for bounds only that `covers` accepts."""

    name: str
    description: str
    run: Run
    needs_key: bool = False
    one_window: bool = False

    def refusal(self, bounds: Bounds, keyed: bool) -> str | None:
        """Why it cannot evaluate a join with these windows, with or without an equality; None where it can."""
        if self.needs_key and not keyed:
            return f"{self.name} needs an equality between all streams"
        if self.one_window and not covers(bounds):
            one = "windows that are the same for all streams, and pairs"
            return f"{self.name} covers {one}; these windows are a {form(bounds)}"
        return None


ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("nested_loop", "NLW-join: a new tuple looks back, nested loops inside the period", nested_loop),
        Algorithm("hash", "HW-join: a new tuple looks back along hash chains in time order", hash_join, needs_key=True),
        Algorithm("backward", "BEW-join: a new tuple looks back; hash chains if there is an equality", backward),
        Algorithm(
            "forward",
            "MW-join: Mode 1 finds a starting combination, Mode 2 joins whole buffers without window tests",
            forward,
            one_window=True,
        ),
        Algorithm(
            "forward_hash", "FEW-join: as forward, with hash chains", forward_hash, needs_key=True, one_window=True
        ),
        Algorithm("gca", "forward with the largest window of all, then every pair is tested", gca),
        Algorithm("lca", "forward with each stream's own largest window, then every pair is tested", lca),
        Algorithm("extended", "extended BEW-join: looks back along the stated windows only", extended),
    )
}
