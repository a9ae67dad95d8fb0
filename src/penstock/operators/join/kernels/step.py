"""One step of a window join: every combination below the new heads that has a tuple beyond the old ones, once.

A combination is made in the turn of its last stream, in the order of FROM, that brings a new tuple: streams before it
may contribute anything, streams after it old tuples only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Literal, Protocol, TypeAlias

import numpy as np

from penstock.expr.conditions import cheap_and_costly, decide, true_rows
from penstock.expr.evaluate import Functions
from penstock.expr.expression import Expr, columns_of
from penstock.operators.join.kernels.combinations import Combinations, blocks, concat
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.probe import (
    Link,
    as_by_value,
    by_key,
    expand,
    key_of,
    pick,
    probe,
    probe_all,
    ranges,
    scan_equal,
)
from penstock.operators.join.kernels.runs import Run, merge_runs
from penstock.operators.join.kernels.scan import Programs

# How many combinations are in the making at a time: enough to be fast, few enough to stay in the cache.
BLOCK = 1 << 16
# How many pairs are tested at once where no key limits them, and how many times more if compiled code scans them.
PAIRS = 1 << 20
PROBED = 1 << 12
SCANNED = 64
# The cost of a look-up in one run and of a candidate of a scan; only their proportion matters.
LOOK_NS = 40
CANDIDATE_NS = 2.2
# What a condition or an equality keeps of the rows inside a period, until it was seen.
GUESS = 0.01
# The newest look counts for so much: rates and values change.
_NEWEST = 0.3
_MOST_JOINS = 256
Way: TypeAlias = Literal["probe", "build", "scan"]
"""How partners are found in one stream: by a look-up in each of its runs, in one table that is built for the step, or by a scan.

Without an equality that leads to a stream its period is scanned, whatever the way.
"""


class RunRows(Protocol):
    """One stream's rows of this part: `fresh` are new, and of them `starts` begin a combination in this part.

    `start` is the log position from which on rows are new.
    """

    fresh: Run
    starts: Run
    start: int

    @property
    def whole(self) -> bool:
        """Whether no row has to be read back from the log."""

    def old(self, low: int, high: int) -> Iterable[Run]:
        """Runs that hold every old row with a time in [low, high]."""

    def weight(self) -> float:
        """About how many rows per microsecond of window to expect as partners."""

    def runs(self) -> int:
        """How many runs a search of the old rows has to visit."""

    def near(self) -> int:
        """About how many old rows are near enough to be partners."""


@dataclass(frozen=True, slots=True)
class Join:
    """A join: aliases in the order of FROM, bounds between their times, and conditions.

    `links` are keys that some of the streams share; rows with a key for all streams need none.
    """

    aliases: tuple[str, ...]
    bounds: tuple[tuple[int, ...], ...]
    conditions: tuple[Expr, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(slots=True)
class BuiltRows:
    """A stream's rows with the old ones in a single run, which is built at the first search."""

    rows: RunRows
    span: tuple[int, int]  # the times that anything in this step can ask for
    fresh: Run = field(init=False)
    starts: Run = field(init=False)
    start: int = field(init=False)
    _built: list[Run] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.fresh, self.starts, self.start = self.rows.fresh, self.rows.starts, self.rows.start

    @property
    def whole(self) -> bool:
        return self.rows.whole

    def old(self, low: int, high: int) -> Iterable[Run]:
        if self._built is None:
            found = list(self.rows.old(*self.span))
            self._built = [merge_runs(found)] if len(found) > 1 else found
        return self._built

    def weight(self) -> float:
        return self.rows.weight()

    def runs(self) -> int:
        return 1

    def near(self) -> int:
        return self.rows.near()


def _built(join: Join, rows: Sequence[RunRows], ways: Sequence[Way]) -> list[RunRows]:
    """The rows of all streams, those that are to be built as `BuiltRows`: unless some would be read back, which may not fit."""
    fresh = [r.fresh for r in rows if len(r.fresh)]
    if "build" not in ways or not fresh:
        return list(rows)
    reach = max(max(row) for row in join.bounds)
    span = (min(r.min_ts for r in fresh) - reach, max(r.max_ts for r in fresh) + reach)
    return [BuiltRows(r, span) if way == "build" and r.whole else r for r, way in zip(rows, ways, strict=True)]


def join_step(
    join: Join, rows: Sequence[RunRows], functions: Functions | None = None, ways: Sequence[Way] = ()
) -> Iterator[Combinations]:
    """The step's combinations, in blocks. `ways` by stream; all of them are probed where it is left out."""
    programs = Programs(join.aliases, join.conditions)
    if not ways:
        ways = ["probe"] * len(rows)
    rows = _built(join, rows, ways)
    for last in range(len(rows)):
        starts = rows[last].starts
        if len(starts) == 0:
            continue
        turn = _Turn(join, rows, last, functions or {}, programs, ways)
        whole = Combinations.of(last, join.aliases[last], starts)
        for block in blocks(whole, BLOCK):
            yield from turn.grow(block, (last,))


class _Turn:
    """Finds the combinations with their last new tuple in one stream."""

    def __init__(
        self,
        join: Join,
        rows: Sequence[RunRows],
        last: int,
        functions: Functions,
        programs: Programs,
        ways: Sequence[Way],
    ) -> None:
        self._join = join
        self._rows = rows
        self._last = last
        self._functions = functions
        self._programs = programs
        self._ways = ways
        self._selectivity = selectivity_of(join)
        self._raised: set[Expr] = set()
        names = {f"{alias}.": i for i, alias in enumerate(join.aliases)}
        # A condition that names no column is decided like one that names them all.
        everything = set(range(len(join.aliases)))
        self._needs = [
            (condition, {names[column.partition(".")[0] + "."] for column in columns_of(condition)} or everything)
            for condition in join.conditions
        ]

    def grow(self, made: Combinations, bound: tuple[int, ...]) -> Iterator[Combinations]:
        """Add the missing streams, one after the other, the one with the fewest partners first."""
        if len(made) == 0:
            return
        if len(bound) == len(self._rows):
            for condition in self._raised:
                # Of those that raised none may be left: the others are true here.
                true_rows(condition, made.evaluable(self._join.aliases), len(made), self._functions)
            yield made
            return
        stream = self._next(bound)
        low, high = self._period(made, bound, stream)
        due = self._due(bound, stream)
        waiting: list[Combinations] = []
        held = total = 0
        for run in self._runs(stream, int(low.min()), int(high.max())):
            for found, left in self._partners(made, bound, stream, run, (low, high), due):
                found = self._refine(found, left)
                if len(found) == 0:
                    continue
                waiting.append(found)
                held += len(found)
                total += len(found)
                if held >= BLOCK:
                    yield from self._go_on(waiting, (*bound, stream))
                    waiting, held = [], 0
        candidates = float((high - low).sum()) * self._rows[stream].weight()
        self._selectivity.learn(self._what(bound, stream), candidates, total)
        if waiting:
            yield from self._go_on(waiting, (*bound, stream))

    def _go_on(self, waiting: list[Combinations], bound: tuple[int, ...]) -> Iterator[Combinations]:
        for block in blocks(concat(waiting), BLOCK):
            yield from self.grow(block, bound)

    def _next(self, bound: tuple[int, ...]) -> int:
        left = [s for s in range(len(self._rows)) if s not in bound]
        return min(left, key=lambda s: (self._rank(s, bound), s))

    def _links(self, bound: tuple[int, ...], stream: int) -> list[Link]:
        return [link for link in self._join.links if link.reaches(stream, bound)]

    def _rank(self, stream: int, bound: tuple[int, ...]) -> float:
        """What binding a stream next multiplies combinations by, for its price: the least first makes the whole cheapest."""
        upper, rows = self._join.bounds, self._rows[stream]
        near = min(upper[b][stream] + upper[stream][b] for b in bound) * rows.weight()
        what = self._what(bound, stream)
        partners = near * self._selectivity.of(what, len(what[1]) + len(what[2]))
        if rows.fresh.keyed:
            return partners
        price = (rows.runs() + 1) * LOOK_NS + partners * CANDIDATE_NS if what[2] else near * CANDIDATE_NS
        return (partners - 1) / max(1.0, price)

    def _what(self, bound: tuple[int, ...], stream: int) -> tuple[int, tuple[Expr, ...], tuple[Link, ...]]:
        """What decides which rows of a stream are kept."""
        return stream, self._due(bound, stream), tuple(self._links(bound, stream))

    def _period(self, made: Combinations, bound: tuple[int, ...], stream: int) -> tuple[Ints, Ints]:
        """Where the next stream's time must lie, for each combination."""
        upper = self._join.bounds
        low = made.ts[bound[0]] - upper[stream][bound[0]]
        high = made.ts[bound[0]] + upper[bound[0]][stream]
        for b in bound[1:]:
            low = np.maximum(low, made.ts[b] - upper[stream][b])
            high = np.minimum(high, made.ts[b] + upper[b][stream])
        return low, high

    def _runs(self, stream: int, low: int, high: int) -> Iterator[Run]:
        yield from self._rows[stream].old(low, high)
        if stream < self._last:
            yield self._rows[stream].fresh

    def _due(self, bound: tuple[int, ...], stream: int) -> tuple[Expr, ...]:
        """The conditions that can be decided with one more stream and could not before; with the second one those of the first, too."""
        known, first = {*bound, stream}, len(bound) == 1
        return tuple(c for c, needs in self._needs if needs <= known and (first or stream in needs))

    def _partners(
        self,
        made: Combinations,
        bound: tuple[int, ...],
        stream: int,
        run: Run,
        period: tuple[Ints, Ints],
        due: tuple[Expr, ...],
    ) -> Iterator[tuple[Combinations, tuple[Expr, ...]]]:
        """The combinations with each of their partners in a run, and which conditions are still to be tested."""
        alias = self._join.aliases[stream]
        if len(run) == 0:
            return
        if run.keyed:
            find = probe_all if self._ways[stream] == "scan" else probe
            for left, right in _probes(partial(find, run), made.key, period):
                yield made.with_rows(stream, alias, run, left, right), due
            return
        links = self._links(bound, stream)
        if links:
            for left, right in self._look_up(made, bound, stream, run, period, links):
                yield made.with_rows(stream, alias, run, left, right), due
            return
        begin, end = ranges(run, *period)
        by_value = next((found for c in due if (found := as_by_value(c, alias)) is not None), None)
        picked = None if by_value is None else pick(by_value, made, self._join.aliases, alias, run, (begin, end))
        if picked is not None:
            others = tuple(c for c in due if c is not picked.condition)
            for first, last in _portions(picked.first, picked.last, PAIRS):
                left, right = picked.inside(begin, end, slice(first, last))
                if len(left):
                    yield made.with_rows(stream, alias, run, left + first, right), others
            end = np.where(picked.answered, begin, end)
        scanned = tuple(c for c in due if self._programs.covers(c))
        rest = tuple(c for c in due if c not in scanned)
        for first, last in _portions(begin, end, PAIRS * SCANNED if scanned else PAIRS):
            if scanned:
                some = made.slice(first, last)
                left, right = self._programs.scan(some, stream, run, begin[first:last], end[first:last], scanned)
            else:
                left, right = expand(begin[first:last], end[first:last])
            if len(left):
                yield made.with_rows(stream, alias, run, left + first, right), rest

    def _look_up(
        self,
        made: Combinations,
        bound: tuple[int, ...],
        stream: int,
        run: Run,
        period: tuple[Ints, Ints],
        links: list[Link],
    ) -> Iterator[tuple[Ints, Ints]]:
        """Pairs (combination, row) that agree on every link: found by the first one, tested for the others."""
        by, *others = links
        compared = [
            (key_of(o, made, bound, self._join.aliases), run.columns[o.number_column(stream)].to_numpy())
            for o in others
        ]
        for left, right in self._first_link(made, bound, stream, run, period, by):
            for wanted, numbers in compared:
                agree = wanted[left] == numbers[right]
                left, right = left[agree], right[agree]
            if len(left):
                yield left, right

    def _first_link(
        self,
        made: Combinations,
        bound: tuple[int, ...],
        stream: int,
        run: Run,
        period: tuple[Ints, Ints],
        link: Link,
    ) -> Iterator[tuple[Ints, Ints]]:
        """Pairs that agree on one link: by the run's index, or by a scan of the period."""
        wanted = key_of(link, made, bound, self._join.aliases)
        if self._ways[stream] != "scan":
            index = by_key(run, link.number_column(stream))
            for left, at in _probes(partial(probe, index), wanted, period):
                yield left, index.pos[at]
            return
        numbers = run.columns[link.number_column(stream)].to_numpy()

        def find(key: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
            return scan_equal(numbers, run.ts, ranges(run, low, high), key, low, high)

        yield from _probes(find, wanted, period)

    def _refine(self, found: Combinations, conditions: tuple[Expr, ...]) -> Combinations:
        """Keep what satisfies the conditions, and that for which one raised: a later condition may be false for it."""
        cheap, costly = cheap_and_costly(conditions)
        for condition in (*cheap, costly):
            columns = found.evaluable(self._join.aliases)
            mask, failure = decide(condition, columns, len(found), self._functions)
            if failure is not None and condition is not None:
                self._raised.add(condition)
            if not mask.all():
                found = found.take(np.flatnonzero(mask))
            if len(found) == 0:
                break
        return found


def _probes(
    find: Callable[[Ints, Ints, Ints], tuple[Ints, Ints]], key: Ints, period: tuple[Ints, Ints]
) -> Iterator[tuple[Ints, Ints]]:
    """Pairs (combination, row of a run) as `find` gives them for keys and periods, some at a time."""
    low, high = period
    first, size = 0, PROBED
    while first < len(key):
        last = min(len(key), first + size)
        left, right = find(key[first:last], low[first:last], high[first:last])
        if len(left):
            yield left + first, right
        # As many at a time as give about so many pairs: a hot key gives thousands for each.
        size = max(64, min(BLOCK, (last - first) * PAIRS // max(1, len(left))))
        first = last


def _portions(begin: Ints, end: Ints, pairs: int) -> Iterator[tuple[int, int]]:
    """Split into neighbouring ranges with a limited number of pairs each, to limit memory."""
    edges = np.cumsum(end - begin)
    first = 0
    while first < len(begin):
        before = edges[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(edges, before + pairs, side="right")))
        yield first, last
        first = last


class Selectivity:
    """The share of candidates that were kept, by condition or equality."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, float] = {}

    def of(self, what: Hashable, conditions: int) -> float:
        return self._seen.get(what, GUESS**conditions)

    def learn(self, what: Hashable, candidates: float, kept: int) -> None:
        if candidates > 0:
            share = kept / candidates
            self._seen[what] = share * _NEWEST + self._seen.get(what, share) * (1 - _NEWEST)


@lru_cache(_MOST_JOINS)
def selectivity_of(join: Hashable) -> Selectivity:
    """What this worker has learned about a join. It changes the order of the work, never a result."""
    return Selectivity()
