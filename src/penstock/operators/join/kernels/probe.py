"""Find partners in a run: its rows in each tuple's period, with the tuple's key, or those that satisfy an inequality.

A run without a key stands in the order of time, so that every period is one range of it. Where the next stream shares an
equality (`Link`) with one that is bound, its rows are also kept by that key: the same layout as a run with a key, of row
numbers, made at the first look-up. Where an inequality compares it with bound streams, its rows are also kept by value: the
rows that satisfy x < y stand together at one end of that order. Where they are few, they are picked from there and those
outside the period dropped; where they are many, the period is scanned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Call, Expr, calls_user, columns_of
from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.combinations import Combinations, as_timestamps
from penstock.operators.join.kernels.keys import Bools, Ints
from penstock.operators.join.kernels.runs import Run, build_run
from penstock.operators.join.kernels.scan import as_doubles, grown
from penstock.operators.join.kernels.weakest import FLIPPED
from penstock.operators.join.papers.sides import Float64s
from penstock.types import DOUBLE, INT

Edges: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
# A bucket longer than this is entered by binary search: a hot key fills it, in time order.
_LONG = 16
# Nanoseconds: sorting one row of a run, picking one row by value, looking at one candidate of a scan.
SORT_NS = 80.0
PICK_NS = 6.0
CANDIDATE_NS = 2.2


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


@kernel
def _probe_keyed(
    buckets: Edges, keys: Ints, times: Ints, span: tuple[int, int], key: Ints, low: Ints, high: Ints
) -> tuple[Ints, Ints]:
    mask = len(buckets) - 2
    left, right = np.empty(max(64, len(key)), np.int64), np.empty(max(64, len(key)), np.int64)
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
                if at == len(left):
                    left, right = grown(left, at), grown(right, at)
                left[at], right[at] = i, row
                at += 1
            row += 1
    return left[:at], right[:at]


@kernel
def _next_equal(keys: Ints, times: Ints, row: int, end: int, key: int, period: tuple[int, int]) -> int:
    """The first row in [row, end) with a key and a time. By itself it compiles to a loop forty times as fast as inside another."""
    while row < end and not (keys[row] == key and times[row] >= period[0] and times[row] <= period[1]):
        row += 1
    return row


@kernel
def scan_equal(
    keys: Ints, times: Ints, candidates: tuple[Ints, Ints], key: Ints, low: Ints, high: Ints
) -> tuple[Ints, Ints]:
    """The pairs (tuple, row) that `probe` finds, by a look at each row in [begin, end). For few rows that is the quickest."""
    begin, end = candidates
    left, right = np.empty(max(64, len(key)), np.int64), np.empty(max(64, len(key)), np.int64)
    at = 0
    for i in range(len(key)):
        period = (low[i], high[i])
        row = _next_equal(keys, times, begin[i], end[i], key[i], period)
        while row < end[i]:
            if at == len(left):
                left, right = grown(left, at), grown(right, at)
            left[at], right[at] = i, row
            at += 1
            row = _next_equal(keys, times, row + 1, end[i], key[i], period)
    return left[:at], right[:at]


def probe_all(run: Run, key: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """`probe` of a run with a key, without its buckets."""
    begin = np.zeros(len(key), np.int64)
    return scan_equal(run.key, run.ts, (begin, begin + len(run)), key, low, high)


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


@dataclass(frozen=True, slots=True)
class ByValue:
    """A condition `own operation given`: `own` of the next stream alone, `given` of streams that are bound."""

    condition: Expr
    own: Expr
    operation: str
    given: Expr


def as_by_value(condition: Expr, alias: str) -> ByValue | None:
    """The condition, if it compares the next stream's doubles with those of others."""
    if not isinstance(condition, Call) or condition.operation not in FLIPPED or calls_user(condition):
        return None
    left, right = condition.arguments
    if left.type not in (DOUBLE, INT) or right.type != left.type:
        return None
    own = [{name.partition(".")[0] == alias for name in columns_of(side)} for side in (left, right)]
    if own == [{True}, {False}]:
        return ByValue(condition, left, condition.operation, right)
    if own == [{False}, {True}]:
        return ByValue(condition, right, FLIPPED[condition.operation], left)
    return None


@dataclass(frozen=True, slots=True)
class ValueRanges:
    """By combination the rows order[first:last] that satisfy the condition; of those that are too many, none."""

    condition: Expr
    order: Ints
    first: Ints
    last: Ints
    answered: Bools

    def inside(self, begin: Ints, end: Ints, some: slice) -> tuple[Ints, Ints]:
        """Pairs (combination, row inside its range) of some combinations, counted from the first of them."""
        return _inside(self.order, self.first[some], self.last[some], begin[some], end[some])


def pick(
    chosen: ByValue, made: Combinations, aliases: Sequence[str], alias: str, run: Run, candidates: tuple[Ints, Ints]
) -> ValueRanges | None:
    """Which rows satisfy the condition, where that is quicker than to scan; None where it is not to be expected.

    `candidates`: by combination the first row that a scan looks at, and the first that it does not reach.
    """
    begin, end = candidates
    scanned = float((end - begin).sum()) * CANDIDATE_NS
    key = ("by value", alias, chosen.own)
    if key not in run.cache and scanned <= SORT_NS * len(run):
        return None
    values, order = _ordered(run, alias, chosen.own, key)
    given, known = as_doubles(evaluate(chosen.given, made.evaluable(aliases), len(made)))
    inside = np.searchsorted(values, given, side="right" if chosen.operation in ("gt", "le") else "left")
    if chosen.operation in ("gt", "ge"):
        first, last = inside, np.full(len(made), len(values))
    else:
        first, last = np.zeros(len(made), np.int64), inside
    if known is not None:
        last = np.where(known, last, first)
    few: Bools = (last - first) * PICK_NS <= (end - begin) * CANDIDATE_NS
    return ValueRanges(chosen.condition, order, first, np.where(few, last, first), few)


def _ordered(run: Run, alias: str, own: Expr, key: object) -> tuple[Float64s, Ints]:
    """Values that are not NULL, ascending, NaN last, and the rows that have them. Made once per run."""
    if key not in run.cache:
        columns: dict[str, pa.Array] = {f"{alias}.{name}": column for name, column in run.columns.items()}
        columns[f"{alias}.{TIME_COLUMN}"] = as_timestamps(run.ts)
        values, known = as_doubles(evaluate(own, columns, len(run)))
        order = np.argsort(values, kind="stable")
        if known is not None:
            order = order[known[order]]
        run.cache[key] = (values[order], order)
    found: tuple[Float64s, Ints] = run.cache[key]
    return found


@kernel
def _inside(order: Ints, first: Ints, last: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    left, right = np.empty(1024, np.int64), np.empty(1024, np.int64)
    at = 0
    for i in range(len(first)):
        for place in range(first[i], last[i]):
            row = order[place]
            if begin[i] <= row < end[i]:
                if at == len(left):
                    left, right = grown(left, at), grown(right, at)
                left[at], right[at] = i, row
                at += 1
    return left[:at], right[:at]
