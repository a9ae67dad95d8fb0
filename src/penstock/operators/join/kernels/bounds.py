"""How far apart in time the tuples of a combination may lie: difference bounds between streams.

In: what the windows of a query say about pairs of streams. Out: what follows for every pair, by shortest paths. A
`WINDOW(a, b) = w` is (a, b, -w, w), `DWINDOW(a, b) = w` is (a, b, 0, w), `WINDOW(a, b) BETWEEN x AND y` is (a, b, x, y),
and `WINDOW = w` is (i, j, -w, w) for every pair. Streams are numbers in the order of FROM.

    bounds = close(3, [(0, 1, 0, 30_000_000), (1, 2, 0, 60_000_000)])
    bounds.upper[0][2]      # 90_000_000: c is at most 90 s later than a
    bounds.components()     # ((0, 1, 2),): every stream is bounded by every other
    form(bounds)            # Form("path", directed=True)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MOST_STREAMS = 8
UNBOUNDED = 2**61
"""Stands for "no bound" in arrays: far beyond any time, and a time plus or minus it still fits 64 bits."""

Pair = tuple[int, int, int | None, int | None]
"""(i, j, low, high): low <= ts of j - ts of i <= high, in microseconds; None leaves that end open."""


class ContradictoryWindows(ValueError):
    """No times can satisfy the windows. `streams` are on the contradiction, in the order in which it goes round.

    Following them once round, a tuple would have to be `excess` microseconds earlier than itself.
    """

    def __init__(self, streams: tuple[int, ...], excess: int) -> None:
        super().__init__(f"the windows between streams {', '.join(map(str, streams))} contradict each other")
        self.streams = streams
        self.excess = excess

    def __reduce__(self) -> tuple[type[ContradictoryWindows], tuple[tuple[int, ...], int]]:
        return (ContradictoryWindows, (self.streams, self.excess))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Closed difference bounds; build them with `close`.

    A tuple of stream j is at most `upper[i][j]` later than one of stream i (negative: it is at least that much earlier;
    None: unbounded), so `ts[j] - ts[i]` lies in [-upper[j][i], upper[i][j]]. `given` are the pairs as stated, one per
    two streams with i < j.
    """

    upper: tuple[tuple[int | None, ...], ...]
    given: tuple[Pair, ...]

    @property
    def streams(self) -> int:
        return len(self.upper)

    def matrix(self) -> npt.NDArray[np.int64]:
        """`upper` for kernels, with UNBOUNDED for None."""
        return np.array([[UNBOUNDED if u is None else u for u in row] for row in self.upper], np.int64)

    def reach(self, stream: int) -> tuple[int | None, int | None]:
        """How long before and how long after a tuple of the stream any partner may be; None where there is no limit."""
        before = [row[stream] for row in self.upper]
        return _largest(before), _largest(self.upper[stream])

    def largest(self) -> int | None:
        """The one window that covers every pair, or None where some pair is unbounded."""
        return _largest([u for row in self.upper for u in row])

    def components(self) -> tuple[tuple[int, ...], ...]:
        """Streams that bound each other from both sides, in groups; one group for a query that can be answered.

        Bounded is meant both ways: "b after a", without saying how long, does not connect the two.
        """
        groups: list[tuple[int, ...]] = []
        for i in range(self.streams):
            if not any(i in group for group in groups):
                mutual = (j for j in range(self.streams) if self.upper[i][j] is not None)
                groups.append(tuple(j for j in mutual if self.upper[j][i] is not None))
        return tuple(groups)


@dataclass(frozen=True, slots=True)
class Form:
    """The shape of a query's windows as stated: binary, path, graph, clique or uniform clique.

    Directed: every stated pair says which of its two tuples comes first.
    """

    name: str
    directed: bool

    def __str__(self) -> str:
        return f"directed {self.name}" if self.directed else self.name


def close(streams: int, pairs: Iterable[Pair]) -> Bounds:
    """What the pairs imply for all pairs. Raises ContradictoryWindows; several pairs on the same streams all hold."""
    given = _intersect(streams, pairs)
    upper: list[list[int | None]] = [[0 if i == j else None for j in range(streams)] for i in range(streams)]
    for i, j, low, high in given:
        upper[i][j] = high
        upper[j][i] = None if low is None else -low
    _refuse_contradiction(upper)
    for via in range(streams):
        for i in range(streams):
            for j in range(streams):
                upper[i][j] = _least(upper[i][j], _sum(upper[i][via], upper[via][j]))
    return Bounds(tuple(map(tuple, upper)), given)


def form(bounds: Bounds) -> Form:
    """The form of the windows as they were stated, before anything was derived from them."""
    n, given = bounds.streams, bounds.given
    directed = bool(given) and all((low is not None and low >= 0) or _at_most_zero(high) for _, _, low, high in given)
    if n == 2:
        return Form("binary", directed)
    if len(given) == n * (n - 1) // 2:
        sizes = {high for _, _, low, high in given if high is not None and low == -high}
        even = len(sizes) == 1 and all(
            low is not None and high is not None and low == -high for _, _, low, high in given
        )
        return Form("uniform clique" if even else "clique", directed)
    if path_order(bounds) is not None:
        return Form("path", directed)
    return Form("graph", directed)


def path_order(bounds: Bounds) -> tuple[int, ...] | None:
    """The streams along the path that the stated pairs make, or None where they make no path."""
    n = bounds.streams
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for i, j, _, _ in bounds.given:
        neighbours[i].append(j)
        neighbours[j].append(i)
    ends = [i for i in range(n) if len(neighbours[i]) == 1]
    if len(bounds.given) != n - 1 or len(ends) != 2:
        return None
    order = [_first_end(bounds, ends)]
    while len(order) < n:
        onward = [j for j in neighbours[order[-1]] if j not in order]
        if len(onward) != 1:
            return None
        order.append(onward[0])
    return tuple(order)


def _first_end(bounds: Bounds, ends: list[int]) -> int:
    """The end that comes first in time where the path is directed, else in FROM."""
    later = bounds.upper[ends[0]][ends[1]]
    return ends[1] if _at_most_zero(later) else ends[0]


def _intersect(streams: int, pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    merged: dict[tuple[int, int], tuple[int | None, int | None]] = {}
    for i, j, low, high in pairs:
        if not (0 <= i < streams and 0 <= j < streams and i != j):
            raise ValueError(f"a window between streams {i} and {j} of {streams}")
        if i > j:
            i, j, low, high = j, i, None if high is None else -high, None if low is None else -low
        old_low, old_high = merged.get((i, j), (None, None))
        lows = [v for v in (low, old_low) if v is not None]
        merged[i, j] = (max(lows) if lows else None, _least(high, old_high))
    return tuple((i, j, low, high) for (i, j), (low, high) in sorted(merged.items()))


def _refuse_contradiction(upper: list[list[int | None]]) -> None:
    """Look for a cycle of negative length: distances from a point that is 0 away from every stream keep falling there."""
    n = len(upper)
    distance, parent = [0] * n, [-1] * n
    fallen = -1
    for _ in range(n):
        fallen = -1
        for i in range(n):
            for j in range(n):
                step = upper[i][j]
                if step is not None and distance[i] + step < distance[j]:
                    distance[j], parent[j], fallen = distance[i] + step, i, j
    if fallen < 0:
        return
    for _ in range(n):
        fallen = parent[fallen]
    cycle = [fallen]
    while parent[cycle[-1]] != fallen:
        cycle.append(parent[cycle[-1]])
    cycle.reverse()
    around = zip(cycle, cycle[1:] + cycle[:1], strict=True)
    raise ContradictoryWindows(tuple(cycle), -sum(upper[i][j] or 0 for i, j in around))


def _sum(a: int | None, b: int | None) -> int | None:
    # What comes near UNBOUNDED is unbounded: no two times are that far apart.
    return None if a is None or b is None or a + b >= UNBOUNDED else a + b


def _least(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)


def _largest(values: Iterable[int | None]) -> int | None:
    known = list(values)
    numbers = [v for v in known if v is not None]
    return max(numbers) if len(numbers) == len(known) else None


def _at_most_zero(value: int | None) -> bool:
    return value is not None and value <= 0


def stated(upper: Sequence[Sequence[int | None]]) -> Bounds:
    """Closed bounds with only those pairs as given that do not follow from the others: the form that was meant."""
    size = len(upper)
    pairs: list[Pair] = []
    for i in range(size):
        for j in range(i + 1, size):
            back = upper[j][i]
            pairs.append((i, j, None if back is None else -back, upper[i][j]))
    pairs = [pair for pair in pairs if pair[2:] != (None, None)]
    closed = tuple(tuple(row) for row in upper)
    for pair in reversed(pairs):
        others = [other for other in pairs if other != pair]
        if close(size, others).upper == closed:
            pairs = others
    return close(size, pairs)
