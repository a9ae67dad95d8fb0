"""A tree over rows in time order with partial aggregates in its inner nodes: any period costs O(log n).

Rows stand in arrays ordered by (time, number); node i of a level stands for FANOUT neighbours of the level below. New
rows extend the right edge. Late ones wait in a short list beside the tree, which every answer looks through, until
there are enough of them to be worth rewriting what lies behind them. Old ones go from the left edge.

Nodes hold the partials of standing aggregations (`partials`), so both say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from penstock.operators.aggregate.partials.base import Ints, State, Values
from penstock.operators.aggregate.partials.composite import CompositePartial
from penstock.operators.aggregate.partials.extremes import Extremes
from penstock.operators.aggregate.partials.sums import Total
from penstock.types import BIGINT, DOUBLE, Type

Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Array: TypeAlias = np.ndarray[Any, Any]
LATE_ROWS = 2048
_ROOM = 1024
Kind = Literal["integer", "double"]
FANOUT = 32


class NodePartial(CompositePartial):
    """What a node holds: number and sum of the values, the smallest and the largest."""

    def __init__(self, kind: Kind) -> None:
        types = (DOUBLE if kind == "double" else BIGINT,)
        super().__init__([Total(types), Extremes(types)])

    def fold(self, values: Array, valid: Bools, nodes: Ints, count: int) -> State:
        """The state of `count` nodes, of rows that are each in one of them."""
        rows = np.flatnonzero(valid)
        cells = nodes[rows]
        given = Values(cells, (values[rows],), cells, cells, valid[rows])  # times and positions do not matter
        state = [part.empty(count) for part in self.parts]
        for part, own in zip(self.parts, state, strict=True):
            part.add(own, given)
        return self.joined(state)

    def merged(self, state: State, nodes: Ints, count: int) -> State:
        """The state of `count` nodes, of nodes that are each in one of them."""
        total = self.empty(count)
        self.merge(total, nodes, state)
        return total


@dataclass(frozen=True, slots=True)
class Totals:
    """What is known of some rows: how many there are, and the state of a node of all of them."""

    partial: NodePartial
    rows: int
    state: State

    @staticmethod
    def none(kind: Kind) -> Totals:
        partial = NodePartial(kind)
        return Totals(partial, 0, partial.empty(1))

    def with_more(self, other: Totals) -> Totals:
        """Of both sets of rows together."""
        both = {name: np.concatenate([field, other.state[name]]) for name, field in self.state.items()}
        return Totals(self.partial, self.rows + other.rows, self.partial.merged(both, np.zeros(2, np.int64), 1))

    def value(self, function: str, type_: Type) -> Any:
        """COUNT, SUM, AVG, MIN or MAX; None of no values, except COUNT."""
        place = 0 if function in ("count", "sum", "avg") else 1
        state = self.partial.part(self.state, place)
        if function == "count":
            return int(state["count"][0])
        part = self.partial.parts[place]
        assert isinstance(part, Total | Extremes)
        return part.finish(function, state, type_)[0].as_py()


class AggregateTree:
    """Rows with a time, a unique number, and a value that may be missing. One thread at a time."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.partial = NodePartial(kind)
        self._dtype = np.dtype(np.float64 if kind == "double" else np.int64)
        self._rows = 0  # in the tree
        self._gone = 0  # of them no more wanted, at the left edge
        self._times: Ints = np.empty(0, np.int64)
        self._numbers: Ints = np.empty(0, np.int64)
        self._values: Array = np.empty(0, self._dtype)
        self._valid: Bools = np.empty(0, np.bool_)
        self._levels: list[State] = []
        self._late = self._no_rows()

    def __len__(self) -> int:
        return self._rows - self._gone + len(self._late[0])

    @property
    def nbytes(self) -> int:
        arrays = [self._times, self._numbers, self._values, self._valid, *self._late]
        return sum(a.nbytes for a in arrays) + sum(map(self.partial.nbytes, self._levels))

    def append(self, times: Ints, values: Array, valid: Bools | None = None, numbers: Ints | None = None) -> None:
        """More rows, in any order. Whatever is older than the newest row here is late, and welcome."""
        if not len(times):
            return
        valid = np.ones(len(times), np.bool_) if valid is None else valid
        numbers = np.zeros(len(times), np.int64) if numbers is None else numbers
        rows: tuple[Array, ...] = (times, numbers, values.astype(self._dtype, copy=False), valid)
        if len(times) > 1 and not (times[1:] >= times[:-1]).all():
            order = np.lexsort((numbers, times))
            rows = tuple(a[order] for a in rows)
        on_time = int(np.searchsorted(rows[0], self._newest(), "left"))
        if on_time:
            self._late = tuple(np.concatenate([a, b[:on_time]]) for a, b in zip(self._late, rows, strict=True))
        if on_time < len(times):
            self._write(self._rows, tuple(a[on_time:] for a in rows))
        if len(self._late[0]) > LATE_ROWS:
            self._take_in_late()

    def expire(self, before: int) -> None:
        """Forget rows older than a time."""
        self._late = tuple(a[self._late[0] >= before] for a in self._late)
        self._gone = max(self._gone, int(np.searchsorted(self._times[: self._rows], before, "left")))
        if self._gone * 2 > self._rows:  # each row is moved once for every one that went
            self._rewrite(tuple(a[self._gone : self._rows] for a in self._row_arrays))

    def retain(self, wanted: Callable[[Ints], Bools]) -> None:
        """Forget rows by their numbers."""
        self._late = tuple(a[wanted(self._late[1])] for a in self._late)
        kept = wanted(self._numbers[self._gone : self._rows])
        if not kept.all():
            self._rewrite(tuple(a[self._gone : self._rows][kept] for a in self._row_arrays))

    def answer(self, begin: int, end: int) -> Totals:
        """Of all rows with begin <= time <= end."""
        first, last = self._range(begin, end)
        found = self._between(first, last)
        times = self._late[0]
        return found.with_more(self._of(self._late, (times >= begin) & (times <= end))) if len(times) else found

    def scan(self, begin: int, end: int, wanted: Callable[[Ints], Bools]) -> Totals:
        """The totals of the rows with wanted numbers only: visits each row, for short periods."""
        first, last = self._range(begin, end)
        rows = tuple(a[first:last] for a in self._row_arrays)
        found = self._of(rows, wanted(rows[1]))
        times = self._late[0]
        return found.with_more(self._of(self._late, (times >= begin) & (times <= end) & wanted(self._late[1])))

    # -- inside

    @property
    def _row_arrays(self) -> tuple[Array, ...]:
        return self._times, self._numbers, self._values, self._valid

    def _no_rows(self) -> tuple[Array, ...]:
        return tuple(np.empty(0, t) for t in (np.int64, np.int64, self._dtype, np.bool_))

    def _newest(self) -> int:
        return int(self._times[self._rows - 1]) if self._rows else np.iinfo(np.int64).min

    def _range(self, begin: int, end: int) -> tuple[int, int]:
        times = self._times[: self._rows]
        first = max(self._gone, int(np.searchsorted(times, begin, "left")))
        return first, max(first, int(np.searchsorted(times, end, "right")))

    def _between(self, first: int, end: int) -> Totals:
        """Of the rows [first, end): at each level at most the ragged ends, the rest a level higher."""
        rows, runs = end - first, [self.partial.empty(1)]
        level = -1
        while first < end:
            left, right = -(-first // FANOUT) * FANOUT, end // FANOUT * FANOUT
            if level + 1 >= len(self._levels) or left >= right:
                left = right = end
            runs += [self._run(level, *part) for part in ((first, left), (right, end)) if part[0] < part[1]]
            first, end, level = left // FANOUT, right // FANOUT, level + 1
        all_runs = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
        return Totals(self.partial, rows, self.partial.merged(all_runs, np.zeros(len(runs), np.int64), 1))

    def _run(self, level: int, first: int, end: int) -> State:
        nodes = np.zeros(end - first, np.int64)
        if level < 0:
            return self.partial.fold(self._values[first:end], self._valid[first:end], nodes, 1)
        return self.partial.merged({name: a[first:end] for name, a in self._levels[level].items()}, nodes, 1)

    def _of(self, rows: tuple[Array, ...], wanted: Bools) -> Totals:
        nodes = np.zeros(len(wanted), np.int64)
        return Totals(
            self.partial, int(np.count_nonzero(wanted)), self.partial.fold(rows[2], rows[3] & wanted, nodes, 1)
        )

    def _take_in_late(self) -> None:
        """Rewrite the tree from the first late row on."""
        late = self._late
        first = int(np.searchsorted(self._times[: self._rows], late[0].min(), "left"))
        first = max(first, self._gone)
        together = tuple(
            np.concatenate([a[first : self._rows], b]) for a, b in zip(self._row_arrays, late, strict=True)
        )
        order = np.lexsort((together[1], together[0]))
        self._late = self._no_rows()
        self._write(first, tuple(a[order] for a in together))

    def _rewrite(self, rows: tuple[Array, ...]) -> None:
        self._times, self._numbers, self._values, self._valid = self._no_rows()
        self._levels, self._rows, self._gone = [], 0, 0
        self._write(0, rows)

    def _write(self, first: int, rows: tuple[Array, ...]) -> None:
        """Write ordered rows from an index on, replacing older ones, and update the nodes above."""
        self._rows = first + len(rows[0])
        self._times, self._numbers, self._values, self._valid = (
            _with_room(a, first, self._rows) for a in self._row_arrays
        )
        for array, given in zip(self._row_arrays, rows, strict=True):
            array[first : self._rows] = given
        count, level = self._rows, 0
        while count > FANOUT:
            nodes, changed = -(-count // FANOUT), first // FANOUT
            if level == len(self._levels):
                self._levels.append(self.partial.empty(0))
                changed = 0
            below = slice(changed * FANOUT, count)
            at = np.arange(below.start, count) // FANOUT - changed
            if level == 0:
                new = self.partial.fold(self._values[below], self._valid[below], at, nodes - changed)
            else:
                under = {name: a[below] for name, a in self._levels[level - 1].items()}
                new = self.partial.merged(under, at, nodes - changed)
            mine = self._levels[level] = {
                name: _with_room(a, changed, nodes) for name, a in self._levels[level].items()
            }
            for name, field in new.items():
                mine[name][changed:nodes] = field
            first, count, level = changed, nodes, level + 1
        del self._levels[level:]


def _with_room(array: Array, kept: int, length: int) -> Array:
    """The array with capacity for some length; its first `kept` elements stay."""
    if len(array) >= length:
        return array
    # An array that is written for the first time is as long as it has to be: most are never extended by much.
    larger = np.empty(length if not len(array) else max(length + _ROOM, length * 5 // 4), array.dtype)
    larger[:kept] = array[:kept]
    return larger
