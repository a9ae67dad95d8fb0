"""Search a stream's rows in the order of their values for inequalities with bound streams, instead of scanning the period.

The rows that satisfy x < y stand together at one end of that order. Where they are few, they are picked from there and those
outside the period dropped; where they are many, the period is scanned as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Call, Expr, calls_user, columns_of
from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.combinations import Combinations, as_timestamps
from penstock.operators.join.kernels.keys import Bools, Ints
from penstock.operators.join.kernels.runs import Run
from penstock.operators.join.kernels.scan import as_doubles
from penstock.operators.join.papers.sides import Float64s
from penstock.types import DOUBLE, INT

# Nanoseconds: sorting one row of a run, picking one row by value, looking at one candidate of a scan.
SORT_NS = 80.0
PICK_NS = 6.0
CANDIDATE_NS = 2.2
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True, slots=True)
class ByValue:
    """A condition `own operation given`: `own` of the next stream alone, `given` of streams that are bound."""

    condition: Expr
    own: Expr
    operation: str
    given: Expr


def as_by_value(condition: Expr, alias: str) -> ByValue | None:
    """The condition, if it compares the next stream's doubles with those of others."""
    if not isinstance(condition, Call) or condition.operation not in _FLIPPED or calls_user(condition):
        return None
    left, right = condition.arguments
    if left.type not in (DOUBLE, INT) or right.type != left.type:
        return None
    own = [{name.partition(".")[0] == alias for name in columns_of(side)} for side in (left, right)]
    if own == [{True}, {False}]:
        return ByValue(condition, left, condition.operation, right)
    if own == [{False}, {True}]:
        return ByValue(condition, right, _FLIPPED[condition.operation], left)
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


def pick_by_value(
    conditions: Sequence[Expr],
    made: Combinations,
    aliases: Sequence[str],
    alias: str,
    run: Run,
    candidates: tuple[Ints, Ints],
) -> ValueRanges | None:
    """By the first of the conditions that can be used so; None where none can, or where it would not pay."""
    chosen = next((found for c in conditions if (found := as_by_value(c, alias)) is not None), None)
    return None if chosen is None else pick(chosen, made, aliases, alias, run, candidates)


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
    room = 1024
    left, right = np.empty(room, np.int64), np.empty(room, np.int64)
    at = 0
    for i in range(len(first)):
        for place in range(first[i], last[i]):
            row = order[place]
            if begin[i] <= row < end[i]:
                if at == room:
                    room *= 2
                    more_left, more_right = np.empty(room, np.int64), np.empty(room, np.int64)
                    more_left[:at] = left[:at]
                    more_right[:at] = right[:at]
                    left, right = more_left, more_right
                left[at], right[at] = i, row
                at += 1
    return left[:at], right[:at]
