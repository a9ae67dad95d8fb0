"""A standing query's answer at the last cycle, or at an older one that is still kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cycle.folder import DataFolder
from penstock.errors import error, suggest
from penstock.expr.windows import JoinWindows
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.answer_at import hold_aggregate, hold_scalars
from penstock.operators.aggregate.over_joins.answer_at import hold_over_own, hold_over_read
from penstock.operators.aggregate.rollups.files import RollupFiles
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.listings import Listings
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.row_budget import AnswerReads, RowBudget, RunTasks
from penstock.operators.join.answer import JoinAt
from penstock.operators.resample.answer import ResampleAt
from penstock.operators.resample.answer_at import hold_resampled, request_at
from penstock.operators.resample.sample_cache import SampleCache
from penstock.operators.select.answer_at import hold_join, hold_select
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.storage_choice import StorageChoice
from penstock.operators.sparksql.evaluations import EvaluationAt
from penstock.settings import Settings
from penstock.sql.plan import AggregatePlan, JoinPlan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.query_at import QueryAt
from penstock.views.readiness import Readiness
from penstock.views.results import Result
from penstock.views.window_history import WindowHistory


class KeptAnswers(Readiness):
    """Gives answers of standing queries as of a kept cycle; a base of `StandingQueries`."""

    folder: DataFolder
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
            log = self.log_access(budget)
            if self.store.reader(name) is not None:
                return self._held_reader(name, as_of)
            resampling = self.store.resampling(name)
            if resampling is not None:
                return self._held_resampled(resampling.id, as_of, log)
            evaluated = self.store.evaluated(name)
            if evaluated is not None:
                return self._held_evaluated(evaluated.id, as_of)
            definition = self.store.state.queries.get(name)
            answer = self.store.answers.get(definition.id) if definition is not None else None
            if definition is None or answer is None:
                raise error("query_not_found", query=name, hint=suggest(name, self.store.state.queries))
            last = self.feed.last()
            assert last is not None
            mark = last if as_of is None else self.feed.mark(as_of)
            window = mark.windows.get(definition.id)
            if window is None:
                raise error("cycle_gone", cycle=as_of, oldest=f"{self._answers_from(definition.id)}, for this query")
            query = QueryAt(definition.id, definition.name, answer, mark)
            if isinstance(answer.plan, JoinPlan):
                assert isinstance(window, JoinWindows)
                join = self._held_join(query, answer.plan, window)
                if answer.top is None:
                    return join
                scalars = hold_scalars(self, query, join.now_us, window.by_input[0], log)
                return hold_over_own(join, name, answer.top, self.locked, scalars)
            assert not isinstance(window, JoinWindows)
            if isinstance(answer.plan, AggregatePlan):
                return hold_aggregate(self, query, answer.plan, window, log)
            ready = None
            if mark is last:
                if asked:
                    self.storage_choice.note(definition.id, mark.cycle)
                ready = self.ready if self.storage_choice.of(definition.id, answer) == "complete" else None
            return hold_select(self.store, query, answer.plan, window, log, ready)

    def held_join(self, name: str) -> JoinAt:
        """The answer of the window join that a query is or stands on."""
        with self._lock:
            query_id, mark = self.store.state.queries[name].id, self.feed.last()
            answer = self.store.answers[query_id]
            assert mark is not None and isinstance(answer.plan, JoinPlan)
            window = mark.windows.get(query_id)
            if window is None:
                raise error("cycle_gone", cycle=mark.cycle, oldest=f"{self._answers_from(query_id)}, for this query")
            assert isinstance(window, JoinWindows)
            return self._held_join(QueryAt(query_id, name, answer, mark), answer.plan, window)

    def _held_reader(self, name: str, as_of: int | None) -> AnswerAt:
        """Aggregates over the results of a join that another query is."""
        reader, last = self.store.reader(name), self.feed.last()
        assert reader is not None and last is not None
        definition, plan = reader
        below = plan.relations[0].table
        mark = last if as_of is None else self.feed.mark(as_of)
        known = mark.joins.get(self.store.state.queries[below].id)
        if known is None or (mark is not last and mark.cycle == self.feed.oldest()):
            raise error("cycle_gone", cycle=mark.cycle, oldest="a later one, for this query")
        told = self.told(below, mark)
        return hold_over_read(told, definition, plan, mark.cycle, known.now_us, self.locked)

    def _held_resampled(self, query_id: int, as_of: int | None, log: LogAccess) -> AnswerAt:
        """Values of one stream at the readings of another."""
        last = self.feed.last()
        assert last is not None
        mark = last if as_of is None else self.feed.mark(as_of)
        known = mark.resampled.get(query_id)
        if known is None:
            raise error("cycle_gone", cycle=mark.cycle, oldest=f"{self._answers_from(query_id)}, for this query")
        most = self.settings.result_max_rows
        request = request_at(query_id, mark, known)
        return hold_resampled(self.store, request, log, most, self.samples)

    def _held_evaluated(self, query_id: int, as_of: int | None) -> AnswerAt:
        """What Spark SQL evaluated."""
        last = self.feed.last()
        assert last is not None
        mark = last if as_of is None else self.feed.mark(as_of)
        evaluations = self.store.evaluations
        found = evaluations.by_query[query_id].at(mark.cycle)
        if found is None:
            raise error("cycle_gone", cycle=mark.cycle, oldest=f"{self._answers_from(query_id)}, for this query")
        cycle, now_us = found.cycle, found.now_us
        if found is evaluations.by_query[query_id].last and mark is last:
            cycle, now_us = evaluations.stands_for(query_id) or (cycle, now_us)
        return EvaluationAt(mark.cycle, query_id, found, cycle, now_us)

    def told(self, name: str, mark: Mark | None = None) -> JoinAt:
        """A window join as its readers see it at a cycle: one cycle later, and also outside the join's own window."""
        with self._lock:
            query_id = self.store.state.queries[name].id
            answer = self.store.answers[query_id]
            mark = mark or self.feed.last()
            assert mark is not None and isinstance(answer.plan, JoinPlan) and isinstance(answer.window, JoinWindows)
            before = self.feed.mark(mark.cycle - 1) if mark.cycle > self.feed.oldest() else mark
            # A join shows the results of its history at once: no later cycle is needed.
            mark = before if before.windows.get(query_id) is not None else mark
            return self._held_join(QueryAt(query_id, name, answer, mark), answer.plan, answer.window)

    def _held_join(self, query: QueryAt, plan: JoinPlan, windows: JoinWindows) -> JoinAt:
        join = hold_join(self.store, query, plan, windows, self.folder.log)
        if join is None:
            oldest = f"{self._answers_from(query.id)}, for this query"
            raise error("cycle_gone", cycle=query.mark.cycle, oldest=oldest)
        return join

    def new_budget(self, jobs: bool = True) -> RowBudget:
        """What one answer may read of the log in this process. `jobs`: Spark's workers may read what is more."""
        most, most_own = self.settings.answer_read_max_rows, self.settings.result_max_rows
        return RowBudget(most, most_own, self.reads, self.run_tasks if jobs else None)

    def log_access(self, budget: RowBudget | None = None) -> LogAccess:
        """How one answer at the last cycle opens the log. Called under the lock."""
        journal = self.store.offset.journal if self.store.offset is not None else 0
        return LogAccess(self.folder.log, self.listings, budget or self.new_budget(), journal)

    def _answers_from(self, query_id: int) -> int | str:
        """The oldest kept cycle that has an answer of a query."""
        return self.next_answer(query_id, self.feed.oldest() - 1) or "still to come"

    def invoke(self, name: str, as_of: int | None = None, limit: int | None = None) -> Result:
        """The answer for the window as of the last cycle (or an older, kept one)."""
        self.wait_ready(name)
        budget = self.new_budget()
        held = self.held(name, as_of, budget=budget)
        if limit is not None and isinstance(held, ResampleAt):
            held.most = None
        ids = held.inside()
        if limit is None and len(ids) > self.settings.result_max_rows:
            raise error(
                "over_budget",
                detail=f"the answer has {len(ids)} rows, more than {self.settings.result_max_rows}",
                hint="ask for fewer with a limit or a narrower window, or raise result_max_rows",
            )
        rolled_up = held.note if isinstance(held, AggregateAt) else None
        rows = held.rows_by_time(ids, limit) if isinstance(held, JoinAt) else held.rows(ids[:limit])
        notices = (*(rolled_up.notices if rolled_up is not None else ()), *budget.notices())
        return Result(rows, cycle=held.stands_for, now_us=held.now_us, notices=notices, rolled_up=rolled_up)

    def next_answer(self, query_id: int, after: int) -> int | None:
        """The first kept cycle after one that has an answer: those in which the query rested have none."""
        last = self.feed.last()
        plan = self.store.spark_plans.get(query_id)
        if plan is not None and plan.top is not None:
            found: int | None = max(after, self.feed.oldest()) + 1  # the rows that it reads appear one cycle later
        elif plan is not None and plan.resampled is not None:
            found = self.feed.first_resampled(query_id, after)
        elif self.store.is_sparks(query_id):
            kept = self.store.evaluations.by_query[query_id].kept
            found = max(after + 1, self.feed.oldest(), kept[0][0]) if kept else None
        else:
            found = self.windows.first_answer(query_id, max(after, self.feed.oldest() - 1))
        return found if found is not None and last is not None and found <= last.cycle else None
