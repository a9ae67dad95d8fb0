"""One query's answer as of a committed cycle, safe to read without the lock.

Readers ask for ids (of rows inside the window), and for the rows of ids: what an id is only the answer knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from penstock.catalog.model import Table
from penstock.catalog.rows import StaticRows
from penstock.errors import PenstockError, error
from penstock.expr.windows import FOREVER
from penstock.operators.base.log_reader import LogReader, TimedPositions
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.match_positions import MatchPositions
from penstock.operators.select.window_cut import WindowAt, WindowMatches, rows_entered, rows_inside
from penstock.sql.plan import SelectPlan

Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Read = TypeVar("Read")


class AnswerAt(Protocol):
    """One query's answer at a cycle, as invocations and subscribers read it."""

    @property
    def cycle(self) -> int: ...

    @property
    def query_id(self) -> int: ...

    @property
    def now_us(self) -> int | None: ...

    @property
    def stands_for(self) -> int:
        """The cycle that gives the answer its rows and definitions: this one, or an earlier one for Spark SQL."""
        ...

    @property
    def floors(self) -> tuple[int, ...]:
        """Where retention had come, if the rows of ids depend on it beside the cycle."""
        ...

    def inside(self) -> Ids:
        """The answer: ids ascending."""
        ...

    def entered(self, before: AnswerAt) -> Ids:
        """What came in since an earlier cycle, also if it has left again."""
        ...

    def rows(self, ids: Ids) -> pa.Table:
        """The rows of ids; fewer where retention has taken them."""
        ...

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        """(what is inside, what of it is new, the rows that are not inside any more)."""
        ...


@dataclass(frozen=True, slots=True)
class SelectAt:
    """A select-project query's answer: ids are log positions."""

    cycle: int
    query_id: int
    plan: SelectPlan
    table: Table
    static: StaticRows
    matches: WindowMatches
    values: list[pa.Table]
    instant: WindowAt
    reader: Callable[[], LogReader]
    fresh: Callable[[], LogReader]  # a reader with a new list of the log's files
    ready: CurrentRows | None = None  # where the answer is kept current

    @property
    def stands_for(self) -> int:
        return self.cycle

    @property
    def now_us(self) -> int | None:
        return self.instant.now_us

    @property
    def floors(self) -> tuple[int, ...]:
        return ()

    def inside(self) -> Ids:
        if self.ready is not None:
            ready = self.ready
            return self._reading(lambda f: ready.inside(self.query_id, self.cycle, self.matches, self.instant, f))
        return self._reading(lambda f: rows_inside(self.matches, self.instant, f, self.static).positions)

    def entered(self, before: AnswerAt) -> Ids:
        assert isinstance(before, SelectAt)
        return self.entered_rows(before).positions

    def entered_rows(self, before: SelectAt) -> TimedPositions:
        was, now = before.instant, self.instant
        return self._reading(lambda f: rows_entered(self.matches, was, now, f, self.static))

    def rows(self, ids: Ids) -> pa.Table:
        return self._reading(lambda f: f.rows(self.plan, ids, self.values))

    def since(self, first: int, end: int, low: int) -> TimedPositions:
        """Matches in [first, end) from a time on, whatever the window."""
        return self._reading(lambda f: self.matches.times(f, end, low, FOREVER, first))

    def to_evaluate(self, first: int, end: int, low: int) -> int:
        """How many rows that takes the predicate to be evaluated for."""
        known = self.matches.matches
        return known.to_evaluate(self.reader(), first, end, low) if isinstance(known, MatchPositions) else 0

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        inside = self.inside()
        left = np.setdiff1d(inside_before, inside)
        return inside, np.setdiff1d(inside, inside_before), all_rows(self, left)

    def _reading(self, work: Callable[[LogReader], Read]) -> Read:
        """Read the log by the last listing; where that is too old, by a new one."""
        try:
            return work(self.reader())
        except PenstockError as failure:
            if failure.condition != "corrupt_segment":
                raise
        return work(self.fresh())


def all_rows(held: AnswerAt, ids: Ids) -> pa.Table:
    """The rows of ids, every one of them; cycle_gone where retention has taken some."""
    rows = held.rows(ids)
    if rows.num_rows < len(ids):
        raise rows_gone(held)
    return rows


def rows_gone(held: AnswerAt) -> PenstockError:
    return error(
        "cycle_gone",
        cycle=held.cycle,
        oldest="a later one, because retention has taken rows that left in it",
        hint="subscribe again: that begins with the current answer",
    )


def answered_otherwise(cycle: int) -> PenstockError:
    """The error for a subscriber to a query that moved from cycles to Spark SQL, or back, with its new window."""
    return error(
        "cycle_gone",
        cycle=cycle,
        oldest="a later one, because with its new window the query is evaluated in another way",
        hint="subscribe again: that begins with the current answer",
    )
