"""A standing query's answer at the last cycle, or at an older one that is still kept, whatever operator gives it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.catalog.model import QueryDefinition
from penstock.cycle.folder import DataFolder
from penstock.errors import error, suggest
from penstock.expr.windows import AnyWindow
from penstock.operators.aggregate.rollups.files import RollupFiles
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.listings import Listings
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.row_budget import AnswerReads, RowBudget, RunTasks
from penstock.operators.base.view import view_of
from penstock.operators.resample.sample_cache import SampleCache
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.storage_choice import StorageChoice
from penstock.settings import Settings
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import CommitFeed, Mark
from penstock.views.intervals import Intervals
from penstock.views.query_at import QueryAt
from penstock.views.results import Result
from penstock.views.window_history import WindowHistory


class KeptAnswers:
    """Gives answers of standing queries as of a kept cycle; a base of `StandingQueries`."""

    _lock: threading.RLock
    store: AnswerStore
    feed: CommitFeed
    folder: DataFolder
    intervals: Intervals
    settings: Settings
    listings: Listings
    rolled_files: RollupFiles
    windows: WindowHistory
    storage_choice: StorageChoice
    ready: CurrentRows
    samples: SampleCache
    reads: AnswerReads
    run_tasks: RunTasks | None

    @contextmanager
    def locked(self) -> Iterator[AnswerStore]:
        """The store at a committed cycle, for as long as the block runs."""
        with self._lock:
            yield self.store

    def held(
        self, name: str, as_of: int | None = None, asked: bool = True, budget: RowBudget | None = None
    ) -> AnswerAt:
        """A query's answer at the last committed cycle, or at an older kept one. `asked`: it counts as an invocation."""
        with self._lock:
            query = self._query(name)
            if query is None:
                raise error("query_not_found", query=name, hint=suggest(name, self.store.state.queries))
            last = self.feed.last()
            assert last is not None
            mark = last if as_of is None else self.feed.mark(as_of)
            return view_of(self.store.operators[query.id]).at(self, query, mark, self.log_access(budget), asked)

    def query_at(self, query: QueryDefinition, mark: Mark) -> tuple[QueryAt, AnyWindow]:
        """A query that kernels run, and its window at a kept cycle; cycle_gone where it had no answer there."""
        window = mark.windows.get(query.id)
        if window is None:
            raise error("cycle_gone", cycle=mark.cycle, oldest=f"{self.answers_from(query.id)}, for this query")
        return QueryAt(query.id, query.name, self.store.answers[query.id], mark), window

    def new_budget(self, jobs: bool = True) -> RowBudget:
        """What one answer may read of the log in this process. `jobs`: Spark's workers may read what is more."""
        most, most_own = self.settings.answer_read_max_rows, self.settings.result_max_rows
        return RowBudget(most, most_own, self.reads, self.run_tasks if jobs else None)

    def log_access(self, budget: RowBudget | None = None) -> LogAccess:
        """How one answer at the last cycle opens the log. Called under the lock."""
        journal = self.store.offset.journal if self.store.offset is not None else 0
        return LogAccess(self.folder.log, self.listings, budget or self.new_budget(), journal)

    def answers_from(self, query_id: int) -> int | str:
        """The oldest kept cycle that has an answer of a query."""
        return self.next_answer(query_id, self.feed.oldest() - 1) or "still to come"

    def invoke(self, name: str, as_of: int | None = None, limit: int | None = None) -> Result:
        """The answer for the window as of the last cycle (or an older, kept one)."""
        self.wait_ready(name)
        budget = self.new_budget()
        held = self.held(name, as_of, budget=budget)
        rows = held.select(limit, self.settings.result_max_rows)
        notices = (*(held.note.notices if held.note is not None else ()), *budget.notices())
        return Result(rows, cycle=held.stands_for, now_us=held.now_us, notices=notices, rolled_up=held.note)

    def next_answer(self, query_id: int, after: int) -> int | None:
        """The first kept cycle after one that has an answer: those in which the query rested have none."""
        last = self.feed.last()
        found = view_of(self.store.operators[query_id]).first_answer(self, query_id, after)
        return found if found is not None and last is not None and found <= last.cycle else None

    # -- whether there is an answer

    def _query(self, name: str) -> QueryDefinition | None:
        query = self.store.state.queries.get(name)
        return query if query is not None and query.id in self.store.operators else None

    def is_resting(self, name: str) -> bool:
        """Whether a query answers nothing for now: it is paused, or reads again what it missed."""
        with self._lock:
            query = self._query(name)
            return query is not None and view_of(self.store.operators[query.id]).is_resting(self.store, query)

    def check_failed(self, name: str) -> None:
        """Raise what a FAILED query failed with."""
        with self._lock:
            query = self._query(name)
            failure = view_of(self.store.operators[query.id]).failure(self.store, query) if query is not None else None
            if failure is not None:
                raise failure

    def is_ready(self, name: str, timeout_s: float) -> bool:
        """Whether a query has read its history, waiting for that a while. Raises where it never will."""
        self.feed.wait(lambda: self._is_settled(name), timeout_s)
        with self._lock:
            self.check_failed(name)
            query = self._query(name)
            if query is not None and query.paused:
                raise error("not_ready", detail=f'query "{name}" is PAUSED', hint=f"ALTER QUERY {name} RESUME")
            return query is None or view_of(self.store.operators[query.id]).is_ready(self.store, query)

    def _is_settled(self, name: str) -> bool:
        """Whether nothing is to be waited for: there is an answer, or there will be none."""
        with self._lock:
            query = self._query(name)
            if query is None or query.paused:
                return True
            view = view_of(self.store.operators[query.id])
            return view.is_ready(self.store, query) or view.failure(self.store, query) is not None

    def wait_ready(self, name: str, timeout_s: float | None = None) -> None:
        """Wait a little for a query that is still filling its window; then raise an error with its state."""
        with self._lock:
            query = self._query(name)
        if query is None:
            return
        view = view_of(self.store.operators[query.id])
        if timeout_s is None:
            timeout_s = view.first_wait_s or self.intervals.ready_s
        if not self.is_ready(name, timeout_s):
            with self._lock:
                raise view.not_ready(self.store, query)
