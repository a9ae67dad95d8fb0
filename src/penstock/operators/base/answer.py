"""One query's answer as of a committed cycle, safe to read without the lock.

Readers ask for ids (of rows inside the window), and for the rows of ids: what an id is only the answer knows.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError, error
from penstock.operators.aggregate.rollups.notices import RolledUpNote
from penstock.operators.select.delivered_windows import DeliveredWindows

Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Read = TypeVar("Read")


class AnswerAt(Protocol):
    """One query's answer at a cycle, as invocations and subscribers read it."""

    operator: ClassVar[str]  # answers of one operator can be compared with each other

    @property
    def cycle(self) -> int: ...

    @property
    def query_id(self) -> int: ...

    @property
    def now_us(self) -> int | None: ...

    @property
    def stands_for(self) -> int:
        """The cycle that gives the answer its rows and definitions: this one, or an earlier one for Spark SQL."""

    @property
    def stretch(self) -> int | None:
        """Between cycles of one stretch a subscriber misses nothing but older values. None: it has to be told of every cycle."""

    @property
    def net_changes(self) -> bool:
        """Whether the net change over cycles of one stretch is enough for a subscriber of changes."""

    @property
    def floors(self) -> tuple[int, ...]:
        """Where retention had come, if the rows of ids depend on it beside the cycle."""

    def inside(self) -> Ids:
        """The answer: ids ascending."""

    def entered(self, before: AnswerAt) -> Ids:
        """What came in since an earlier cycle, also if it has left again."""

    def rows(self, ids: Ids) -> pa.Table:
        """The rows of ids; fewer where retention has taken them."""

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        """(what is inside, what of it is new, the rows that are not inside any more)."""

    def select(self, limit: int | None, most: int) -> pa.Table:
        """The answer's first rows in the order of SELECT; over_budget where all of them are asked for and they are more than `most`."""

    def begin(self, delivered: DeliveredWindows) -> None:
        """A subscriber has this answer."""

    def first(self, delivered: DeliveredWindows) -> Ids:
        """What a new subscriber begins with: the answer, and what its query keeps of earlier ones. It is delivered."""

    def undelivered(self, before: AnswerAt, delivered: DeliveredWindows) -> Ids:
        """What entered since the subscriber's last answer, without what it was sent already."""

    # -- rows that no later reading can change

    @property
    def finishes_later(self) -> bool:
        """Whether a row may become final in another cycle than the one in which it enters."""

    @property
    def final_to_us(self) -> int | None:
        """Rows before this time are final: of panes their end counts. None: no row is."""

    def final_rows(self) -> pa.Table:
        """The rows of the answer that are final."""

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        """The rows that have become final since an earlier answer, also if they have left the window since."""

    @property
    def note(self) -> RolledUpNote | None:
        """What a rollup had to do with the answer, once its rows were read."""


def check_rows(ids: Ids, limit: int | None, most: int) -> Ids:
    """The first ids; over_budget where all of them are asked for and they are too many."""
    _check_count(len(ids), limit, most)
    return ids[:limit]


def first_rows(rows: pa.Table, limit: int | None, most: int) -> pa.Table:
    """The same of rows."""
    _check_count(rows.num_rows, limit, most)
    return rows.slice(0, limit)


def _check_count(count: int, limit: int | None, most: int) -> None:
    if limit is None and count > most:
        raise error(
            "over_budget",
            detail=f"the answer has {count} rows, more than {most}",
            hint="ask for fewer with a limit or a narrower window, or raise result_max_rows",
        )


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
