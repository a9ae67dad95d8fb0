"""A tree over rows in time order with partial aggregates in its inner nodes: any period costs O(log n).

Rows stand in arrays ordered by (time, number); node i of a level stands for FANOUT neighbours of the level below. New
rows extend the right edge. Late ones wait in a short list beside the tree, which every answer looks through, until
there are enough of them to be worth rewriting what lies behind them. Old ones go from the left edge.

Sums lose nothing on the way. Doubles carry what rounding cut off beside the sum, so that a large value that comes does
not swallow small ones; integers are added as an upper and a lower half, so that no sum of them runs over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from penstock.expr.kernel import kernel

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Array: TypeAlias = np.ndarray[Any, Any]
LATE_ROWS = 2048
_ROOM = 1024
Kind = Literal["integer", "double"]
FANOUT = 32
HALF = 32
_SMALLEST, _LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_LOWER_HALF = 2**HALF - 1


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of some rows: their number, the number of values, their sum, the smallest and the largest.

    `upper` and `lower` are a double's sum and its rest, or the sums of an integer's two halves.
    `least` and `greatest` mean something only where `count` is not 0. NaN is larger than any other double.
    """

    kind: Kind
    rows: int = 0
    count: int = 0
    upper: float | int = 0
    lower: float | int = 0
    least: float | int = 0
    greatest: float | int = 0

    def with_more(self, other: Totals) -> Totals:
        """Of both sets of rows together."""
        rows = self.rows + other.rows
        if not self.count or not other.count:
            known = self if self.count else other
            return Totals(self.kind, rows, known.count, known.upper, known.lower, known.least, known.greatest)
        upper, rest = self.upper + other.upper, self.lower + other.lower
        if self.kind == "double":
            rest += _cut_off(self.upper, other.upper, upper)
        least, greatest = _smaller(self.least, other.least), _larger(self.greatest, other.greatest)
        return Totals(self.kind, rows, self.count + other.count, upper, rest, least, greatest)

    @property
    def sum(self) -> float | int | None:
        """Integers exactly, however large; None of no values."""
        if not self.count:
            return None
        if self.kind == "integer":
            return (int(self.upper) << HALF) + int(self.lower)
        whole = float(self.upper + self.lower)
        # Beside an infinite sum the rest is NaN: infinity less infinity.
        return whole if math.isfinite(whole) else float(self.upper)

    @property
    def avg(self) -> float | None:
        total = self.sum
        return None if total is None else float(total) / self.count

    @property
    def min(self) -> float | int | None:
        return self.least if self.count else None

    @property
    def max(self) -> float | int | None:
        return self.greatest if self.count else None


def _cut_off(one: float, other: float, total: float) -> float:
    """What rounding lost of one + other."""
    part = total - one
    return (one - (total - part)) + (other - part)


def _smaller(one: float | int, other: float | int) -> float | int:
    return other if one != one or other < one else one


def _larger(one: float | int, other: float | int) -> float | int:
    return other if other != other or other > one else one


# The kernels fold rows into nodes, nodes into nodes, and a short range of either into one. All give (count, upper, lower,
# least, greatest) as `Totals` has them. For doubles NaN is the largest value, so it is where the smallest begins.


@kernel
def fold_doubles(values: Any, valid: Any, first: int, end: int) -> Any:
    count, total, rest, least, greatest = 0, 0.0, 0.0, np.nan, -np.inf
    for i in range(first, end):
        if not valid[i]:
            continue
        v = values[i]
        count += 1
        new = total + v
        part = new - total
        rest += (total - (new - part)) + (v - part)
        total = new
        if least != least or v < least:
            least = v
        if v != v or v > greatest:
            greatest = v
    return count, total, rest, least, greatest


@kernel
def fold_integers(values: Any, valid: Any, first: int, end: int) -> Any:
    count, upper, lower, least, greatest = 0, 0, 0, _LARGEST, _SMALLEST
    for i in range(first, end):
        if not valid[i]:
            continue
        v = values[i]
        count += 1
        upper += v >> 32
        lower += v & _LOWER_HALF
        least = min(least, v)
        greatest = max(greatest, v)
    return count, upper, lower, least, greatest


@kernel
def merge_doubles(nodes: Any, first: int, end: int) -> Any:
    counts, uppers, lowers, leasts, greatests = nodes
    count, total, rest, least, greatest = 0, 0.0, 0.0, np.nan, -np.inf
    for i in range(first, end):
        v = uppers[i]
        count += counts[i]
        new = total + v
        part = new - total
        rest += ((total - (new - part)) + (v - part)) + lowers[i]
        total = new
        if counts[i]:
            if least != least or leasts[i] < least:
                least = leasts[i]
            if greatests[i] != greatests[i] or greatests[i] > greatest:
                greatest = greatests[i]
    return count, total, rest, least, greatest


@kernel
def merge_integers(nodes: Any, first: int, end: int) -> Any:
    counts, uppers, lowers, leasts, greatests = nodes
    count, upper, lower, least, greatest = 0, 0, 0, _LARGEST, _SMALLEST
    for i in range(first, end):
        count += counts[i]
        upper += uppers[i]
        lower += lowers[i]
        least = min(least, leasts[i])
        greatest = max(greatest, greatests[i])
    return count, upper, lower, least, greatest


@kernel
def leaf_doubles(values: Any, valid: Any, rows: int, first: int, end: int, into: Any) -> None:
    """Nodes first .. end over `rows` rows."""
    counts, uppers, lowers, leasts, greatests = into
    for n in range(first, end):
        counts[n], uppers[n], lowers[n], leasts[n], greatests[n] = fold_doubles(
            values, valid, n * FANOUT, min(rows, (n + 1) * FANOUT)
        )


@kernel
def leaf_integers(values: Any, valid: Any, rows: int, first: int, end: int, into: Any) -> None:
    counts, uppers, lowers, leasts, greatests = into
    for n in range(first, end):
        counts[n], uppers[n], lowers[n], leasts[n], greatests[n] = fold_integers(
            values, valid, n * FANOUT, min(rows, (n + 1) * FANOUT)
        )


@kernel
def inner_doubles(below: Any, nodes: int, first: int, end: int, into: Any) -> None:
    """Nodes first .. end over `nodes` nodes of the level below."""
    counts, uppers, lowers, leasts, greatests = into
    for n in range(first, end):
        counts[n], uppers[n], lowers[n], leasts[n], greatests[n] = merge_doubles(
            below, n * FANOUT, min(nodes, (n + 1) * FANOUT)
        )


@kernel
def inner_integers(below: Any, nodes: int, first: int, end: int, into: Any) -> None:
    counts, uppers, lowers, leasts, greatests = into
    for n in range(first, end):
        counts[n], uppers[n], lowers[n], leasts[n], greatests[n] = merge_integers(
            below, n * FANOUT, min(nodes, (n + 1) * FANOUT)
        )


_LEAF: dict[Kind, Callable[..., None]] = {"double": leaf_doubles, "integer": leaf_integers}
_INNER: dict[Kind, Callable[..., None]] = {"double": inner_doubles, "integer": inner_integers}
_FOLD: dict[Kind, Callable[..., Any]] = {"double": fold_doubles, "integer": fold_integers}
_MERGE: dict[Kind, Callable[..., Any]] = {"double": merge_doubles, "integer": merge_integers}


class AggregateTree:
    """Rows with a time, a unique number, and a value that may be missing. One thread at a time."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._dtype = np.dtype(np.float64 if kind == "double" else np.int64)
        self._rows = 0  # in the tree
        self._gone = 0  # of them no more wanted, at the left edge
        self._times: Ints = np.empty(0, np.int64)
        self._numbers: Ints = np.empty(0, np.int64)
        self._values: Array = np.empty(0, self._dtype)
        self._valid: Bools = np.empty(0, np.bool_)
        self._levels: list[tuple[Array, ...]] = []
        self._late = self._no_rows()

    def __len__(self) -> int:
        return self._rows - self._gone + len(self._late[0])

    @property
    def nbytes(self) -> int:
        arrays = [self._times, self._numbers, self._values, self._valid, *self._late]
        return sum(a.nbytes for a in arrays) + sum(a.nbytes for level in self._levels for a in level)

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
        found = Totals(self.kind, rows=end - first)
        level = -1
        while first < end:
            left, right = -(-first // FANOUT) * FANOUT, end // FANOUT * FANOUT
            if level + 1 >= len(self._levels) or left >= right:
                return found.with_more(self._run(level, first, end))
            if first < left:
                found = found.with_more(self._run(level, first, left))
            if right < end:
                found = found.with_more(self._run(level, right, end))
            first, end, level = left // FANOUT, right // FANOUT, level + 1
        return found

    def _run(self, level: int, first: int, end: int) -> Totals:
        if level < 0:
            return Totals(self.kind, 0, *_FOLD[self.kind](self._values, self._valid, first, end))
        return Totals(self.kind, 0, *_MERGE[self.kind](self._levels[level], first, end))

    def _of(self, rows: tuple[Array, ...], wanted: Bools) -> Totals:
        chosen = int(np.count_nonzero(wanted))
        return Totals(self.kind, chosen, *_FOLD[self.kind](rows[2], rows[3] & wanted, 0, len(wanted)))

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
                self._levels.append(self._no_nodes())
                changed = 0
            mine = self._levels[level] = tuple(_with_room(a, changed, nodes) for a in self._levels[level])
            if level == 0:
                _LEAF[self.kind](self._values, self._valid, count, changed, nodes, mine)
            else:
                _INNER[self.kind](self._levels[level - 1], count, changed, nodes, mine)
            first, count, level = changed, nodes, level + 1
        del self._levels[level:]

    def _no_nodes(self) -> tuple[Array, ...]:
        return (np.empty(0, np.int64), *(np.empty(0, self._dtype) for _ in range(4)))


def _with_room(array: Array, kept: int, length: int) -> Array:
    """The array with capacity for some length; its first `kept` elements stay."""
    if len(array) >= length:
        return array
    # An array that is written for the first time is as long as it has to be: most are never extended by much.
    larger = np.empty(length if not len(array) else max(length + _ROOM, length * 5 // 4), array.dtype)
    larger[:kept] = array[:kept]
    return larger
