"""What operators keep of their standing queries, folded from commit records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from penstock.cycle.commit_files import ResultRow
from penstock.cycle.folder import DataFolder
from penstock.operators.registry import operators_with, part_of
from penstock.sql.plan import Plan
from penstock.views.query_state import QueryState


class OperatorState:
    """The state of one operator's queries: a pure function of journal and records. Changed under the lock of the answers.

    An operator overrides what it needs. A kind of result belongs to one operator.
    """

    kinds: ClassVar[
        Mapping[str, Literal["query", "table"]]
    ] = {}  # what it folds, and what the number in such a row names

    def define(self, query_id: int, plan: Plan, position: int) -> None:
        """Take in a query that is new or changed by the journal entry at a position. Its plan may be another operator's."""

    def drop(self, query_id: int) -> None:
        """Forget a query."""

    def drop_table(self, table_id: int) -> None:
        """Forget a table."""

    def fold(self, row: ResultRow, answer: QueryState | None, cycle: int) -> None:
        """Take in a row of a record. `answer`: what all operators keep of the query, if kernels run it."""

    def users_of(self, payload: bytes | None) -> set[int]:
        """The queries that fail where a row about a table cannot be folded; none: then the whole cycle is folded again."""
        return set()

    def finish_fill(self, query_id: int) -> None:
        """A query has read its history."""

    def doubt(self, query_id: int) -> None:
        """A query failed in a cycle: its state may lack rows."""

    def release(self, query_id: int) -> None:
        """Give up what of a query alone can be made again from the rest and the log."""

    def empty(self, query_id: int) -> None:
        """A query has failed because its state is too large: give up what no other query uses."""

    def matched(self, query_id: int) -> int:
        """Rows that cycles have found for a query, apart from those in `QueryState.matched`."""
        return 0

    def trim(self, keep_from: Mapping[int, int]) -> None:
        """Forget rows below a position per query, which no kept cycle reaches. A query without a position keeps all."""

    def snapshot(self) -> Iterator[ResultRow]:
        """Rows of its kinds that restore the state when they are folded into an empty one."""
        return iter(())

    def details(self, query_id: int) -> dict[str, Any]:
        """What a snapshot holds of a query beside these rows."""
        return {}

    def restore(self, query_id: int, kept: Mapping[str, Any]) -> None:
        """Take in the details of a snapshot."""


def new_states(folder: DataFolder) -> dict[str, OperatorState]:
    """The empty states of all operators that have one (`state.STATE`), by operator."""
    return {operator: part_of(operator, "state").STATE(folder) for operator in operators_with("state")}
