"""Rows of an answer for an aggregate tree: their times, their unique numbers, and one column's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import PenstockError
from penstock.expr.expression import Column, Expr, calls_user, substituted
from penstock.expr.windows import FOREVER, RowsWindow
from penstock.operators.aggregate.trees.tree import Kind
from penstock.operators.base.answer import Ids
from penstock.operators.base.once import NotAnswered
from penstock.operators.join.answer import JoinAt
from penstock.operators.join.steps.results import EARLIEST, LATEST
from penstock.operators.select.answer import SelectAt
from penstock.operators.select.match_positions import MatchPositions
from penstock.sql.plan import Output
from penstock.types import TIMESTAMP

ROWS_AT_ONCE = 1 << 20


_GONE = "retention takes the rows just now"


def column_of(argument: Expr, outputs: tuple[Output, ...], with_time: bool) -> Expr:
    """An expression over a query's columns as one over those of its streams."""
    named = {o.name: o.expr for o in outputs}
    if with_time:
        named[TIME_COLUMN] = Column(TIME_COLUMN, TIMESTAMP)
    try:
        found = substituted(argument, named)
    except KeyError:
        raise NotAnswered("the query has other columns now") from None
    if calls_user(found):
        raise NotAnswered("a user's function runs in workers only")
    return found


def kind_of(column: Expr) -> Kind:
    return "double" if column.type.kind == "DOUBLE" else "integer"


@dataclass(frozen=True, slots=True)
class SelectRows:
    """Rows of a select-project query: all matches that are still in the log, also outside its own window.

    That is what a reader of it sees. Rows that no record covers are evaluated, `most_rows` of them at most.
    """

    held: SelectAt
    floor: int
    head: int
    most_rows: int

    @property
    def identity(self) -> object:
        plan = self.held.plan
        return plan.table_id, plan.static_predicate, plan.stream_predicate

    def since(self, first: int, low: int) -> tuple[Ids, Ids]:
        """Times and positions of the matches from a position and a time on."""
        known = self.held.matches.matches
        if not isinstance(known, MatchPositions):
            raise NotAnswered("a user's function runs in workers only")
        # A reader sees what is older than any window of the query, too. Of windows of rows only the newest are recorded.
        counts = isinstance(self.held.plan.window, RowsWindow)
        whole = replace(known, reach=0, keep=False, covered=() if counts else known.covered)
        held = replace(self.held, matches=replace(self.held.matches, matches=whole))
        first = max(first, self.floor)
        if held.to_evaluate(first, self.head, low) > self.most_rows:
            raise NotAnswered("there are more than answer_read_max_rows readings that the query has not met")
        rows = held.since(first, self.head, low)
        return rows.times, rows.positions

    def columns(self, positions: Ids, column: Expr) -> Iterator[tuple[slice, pa.ChunkedArray]]:
        """A column's values at positions, some at a time."""
        held = replace(self.held, plan=replace(self.held.plan, outputs=(Output("value", column.type, column),)))
        return _columns(held.rows, positions)


@dataclass(frozen=True, slots=True)
class JoinRows:
    """Rows of a window join: its results, by the time of their latest tuple."""

    held: JoinAt

    @property
    def identity(self) -> object:
        held = self.held
        return held.results.generation, held.windows, tuple(i.floor for i in held.inputs)

    @property
    def head(self) -> int:
        return self.held.count

    @property
    def spread(self) -> int:
        """How much earlier than its latest tuple another one of a result may be."""
        bounds = [b for i, row in enumerate(self.held.plan.bounds) for j, b in enumerate(row) if i != j]
        return FOREVER if None in bounds else max((b for b in bounds if b is not None), default=0)

    def since(self, first: int, low: int) -> tuple[Ids, Ids]:
        """Times and numbers of the results from a number on with no tuple before a time."""
        picked = self.held.results.inside(first, self.held.count, low, FOREVER)
        kept = self.held.are_kept(picked)
        return picked.column(LATEST)[kept], picked.numbers[kept]

    def columns(self, numbers: Ids, column: Expr) -> Iterator[tuple[slice, pa.ChunkedArray]]:
        held = replace(self.held, plan=replace(self.held.plan, outputs=(Output("value", column.type, column),)))
        try:
            yield from _columns(held.rows, numbers)
        except PenstockError as failure:
            if failure.condition != "cycle_gone":
                raise
            raise NotAnswered(_GONE) from failure

    def begin_after(self, numbers: Ids, low: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of some results have their earliest tuple at or after a time."""
        picked = self.held.results.pick(np.sort(numbers))
        found: np.ndarray[Any, np.dtype[np.bool_]] = np.isin(numbers, picked.numbers[picked.column(EARLIEST) >= low])
        return found


def _columns(read: Callable[[Ids], pa.Table], ids: Ids) -> Iterator[tuple[slice, pa.ChunkedArray]]:
    """The first column of the rows that an answer has for ids, some at a time."""
    for first in range(0, len(ids), ROWS_AT_ONCE):
        part = slice(first, min(len(ids), first + ROWS_AT_ONCE))
        table = read(ids[part])
        if table.num_rows < part.stop - part.start:
            raise NotAnswered(_GONE)
        yield part, table.column(0)
