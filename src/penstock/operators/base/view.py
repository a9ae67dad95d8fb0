"""The interface of an operator's answers: what readers ask of a `View`, and what it is given to answer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from penstock.catalog.model import QueryDefinition, Table
from penstock.catalog.state import CatalogState
from penstock.cycle.folder import DataFolder
from penstock.errors import PenstockError, error
from penstock.expr.windows import AnyWindow
from penstock.operators.aggregate.rollups.files import RollupFiles
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import UNKNOWN, Classification
from penstock.operators.base.log_access import Listings, LogAccess
from penstock.operators.base.log_reader import LogReader, read_log
from penstock.operators.base.window_rows import SegmentsOf
from penstock.operators.registry import part_of
from penstock.operators.resample.sample_cache import SampleCache
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.storage_choice import StorageChoice
from penstock.settings import Settings
from penstock.sql.plan import Plan, evaluated_by_spark
from penstock.types import format_duration
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import CommitFeed, Mark
from penstock.views.query_state import QueryState
from penstock.views.window_history import WindowHistory

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class QueryAt:
    """A query, its state, and the committed cycle as of which it is answered."""

    id: int
    name: str
    state: QueryState
    mark: Mark


class AnswerOwner(Protocol):
    """Answers as of the last cycle (`store`), kept cycles (`feed`), and what operators keep beside them."""

    store: AnswerStore
    feed: CommitFeed
    folder: DataFolder
    settings: Settings
    listings: Listings
    rolled_files: RollupFiles
    windows: WindowHistory
    storage_choice: StorageChoice
    ready: CurrentRows
    samples: SampleCache

    @property
    def locked(self) -> Callable[[], AbstractContextManager[AnswerStore]]: ...

    def log_access(self) -> LogAccess:
        """How one answer opens the log. Called under the lock."""

    def query_at(self, query: QueryDefinition, mark: Mark) -> tuple[QueryAt, AnyWindow]:
        """A query that kernels run, and its window at a kept cycle; cycle_gone where it had no answer there."""

    def answers_from(self, query_id: int) -> int | str:
        """The oldest kept cycle that has an answer of a query."""


_MENDING = {
    "table_not_found": "drop the query, create it anew",
    "over_budget": "give it a shorter window or fewer groups, use APPROX_DISTINCT, APPROX_PERCENTILE or WITHIN n PERCENT,"
    " or raise slices_memory_mb or exact_values_max; then pause and resume it",
    "function_failed": "drop the query, mend the function, create it anew",
    "corrupt_segment": "put the file back from a backup, then pause and resume the query: it reads its history again",
}


Budget = Literal["aggregates", "mining", "selections"]


class View(ABC):
    """The standing queries of one operator. Every method that is given the store or its owner is called under the lock.

    The answers here are those of queries that run in the cycle: a `QueryState` per query is folded from the records.
    """

    first_wait_s: float | None = None  # how long a first request waits for an answer, if longer than others

    @abstractmethod
    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        """The answer at a kept cycle, with `log` to read. `asked`: it counts as an invocation."""

    @abstractmethod
    def memory(self, store: AnswerStore, query_id: int) -> int:
        """Bytes of its answer, with its share of what several queries share."""

    @abstractmethod
    def runs(self, plan: Plan) -> str:
        """Where its answer is made, in two or three words."""

    @abstractmethod
    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        """The reason why an answer is kept in one way only, whatever strategy is requested; None where there is a choice."""

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        """When its rows are final, and what its state grows with."""
        return UNKNOWN

    def check_room(self, views: AnswerOwner, plan: Plan, before: Plan | None, state: CatalogState) -> None:
        """Raise over_budget where what a full window needs does not fit beside other queries. `before`: the plan that it replaces.

        Called without the lock: it may read the log.
        """
        return

    def check_change(self, name: str, plan: Plan, state: CatalogState) -> None:
        """Refuse a new plan for a query that others read, if they could not read it any more."""
        return

    def full_window_bytes(self, plan: Plan, state: CatalogState, segments_of: SegmentsOf) -> int | None:
        """About how many bytes its state takes once its windows are full; None where that cannot be told."""
        return None

    def first_answer(self, views: AnswerOwner, query_id: int, after: int) -> int | None:
        """The first cycle after one that has an answer: those in which the query rested have none."""
        return views.windows.first_answer(query_id, max(after, views.feed.oldest() - 1))

    def is_resting(self, store: AnswerStore, query: QueryDefinition) -> bool:
        """Whether a query answers nothing for now, and will again."""
        answer = store.answers.get(query.id)
        return answer is not None and answer.error is None and not answer.answers

    def is_ready(self, store: AnswerStore, query: QueryDefinition) -> bool:
        """Whether a query that runs has an answer."""
        answer = store.answers.get(query.id)
        return answer is None or answer.ready

    def fills_long(self, store: AnswerStore, query: QueryDefinition) -> bool:
        """Whether Spark reads its history: no request waits for that."""
        return False

    def not_ready(self, store: AnswerStore, query: QueryDefinition) -> PenstockError:
        """The error where it has none yet."""
        return filling(query.name, self.filled(store, query))

    def filled(self, store: AnswerStore, query: QueryDefinition) -> tuple[float, float | None] | None:
        """What part of its history a FILLING query has read, and about how many seconds are left; None: it is not FILLING."""
        answer = store.answers.get(query.id)
        return (answer.progress, None) if answer is not None and answer.filling is not None else None

    def failure(self, store: AnswerStore, query: QueryDefinition) -> PenstockError | None:
        """The error of a FAILED query."""
        return failure_of(query.name, store.answers.get(query.id))

    def budget(self, plan: Plan) -> Budget:
        """Which share of a processor the events of its subscribers come from, if they may wait."""
        asked = plan.aggregation.aggregates if plan.aggregation is not None else ()
        return "mining" if any(call.options and call.every_us for call in asked) else "aggregates"

    def kept_lines(self, views: AnswerOwner, query_id: int) -> list[str]:
        """What EXPLAIN says of what is kept for a query. Called under the lock."""
        return []

    def box(self, plan: Plan) -> tuple[str, tuple[str, ...]]:
        """The step of its own that is drawn after those below it: a title, and lines."""
        return plan.operator, (self.runs(plan),)

    def window(self, plan: Plan) -> str | None:
        """The window that users see."""
        return str(plan.kernel.windows) if plan.kernel is not None else None


def read_table(views: AnswerOwner, table: Table, state: CatalogState, work: Callable[[LogReader], Found]) -> Found:
    """What is found in the log of a table up to the last cycle, or further, for a query that is not there yet."""
    with views.locked() as store:
        head = store.offset.data.get(table.id, 0) if store.offset is not None else 0
        # Its newest rows may be of sensors that no cycle has taken in.
        log = replace(views.log_access(), journal=state.position)
    static = state.rows(table.id)
    return read_log(work, lambda: log.reader(table, static, head), lambda: log.fresh(table, static))


def view_of(operator: str) -> View:
    """What answers an operator's standing queries."""
    view: View = part_of(operator, "view").VIEW
    return view


def classify(plan: Plan, state: CatalogState) -> Classification:
    """When the rows of a plan are final, and what its state grows with."""
    return view_of(plan.operator).classify(plan, state)


def only_strategy(answer: QueryState) -> str | None:
    """The reason why an answer is kept in one way only; None where there is a choice."""
    return view_of(answer.operator).only_strategy(answer.plan, answer.window, answer.strategy)


def unheeded(plan: Plan, asked: str | None) -> str | None:
    """Why a requested strategy changes nothing; None where it is used."""
    if asked is None or (asked == "partial" and not evaluated_by_spark(plan)):
        return None
    window = plan.kernel.windows if plan.kernel is not None else None
    return view_of(plan.operator).only_strategy(plan, window, asked)


def failure_of(name: str, answer: QueryState | None) -> PenstockError | None:
    """The error that a query failed with in a cycle."""
    if answer is None or answer.error is None:
        return None
    if answer.error_condition == "query_quarantined":
        hint = f"mend what it reads or calls; ALTER QUERY {name} RESUME has it read its history again"
        return error("query_quarantined", query=name, reason=answer.error, hint=hint)
    return failed(answer.error_condition, answer.error)


def failed(condition: str, message: str) -> PenstockError:
    return PenstockError(condition, message, hint=_MENDING.get(condition))


def filling(name: str, filled: tuple[float, float | None] | None) -> PenstockError:
    """The error for a query that reads its history."""
    if filled is None:
        return error("query_not_found", query=name, hint="it was dropped")
    progress, seconds_left = filled
    detail = f'query "{name}" is FILLING its window: {filled_text(progress, seconds_left)}'
    return error("not_ready", detail=detail, hint="ask again in a moment")


def filled_text(progress: float, seconds_left: float | None) -> str:
    left = (
        "" if seconds_left is None else f", about {format_duration(max(1, math.ceil(seconds_left)) * 1_000_000)} left"
    )
    return f"{progress:.0%} of its history read{left}"


def cycle_gone(views: AnswerOwner, query_id: int, cycle: int) -> PenstockError:
    """The error for a cycle at which a query has no answer, with the oldest kept one that has."""
    return error("cycle_gone", cycle=cycle, oldest=f"{views.answers_from(query_id)}, for this query")
