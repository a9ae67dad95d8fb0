"""Aggregations over the results of another query's window join as readers see them."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import PenstockError, error, expect
from penstock.expr.windows import AnyWindow
from penstock.operators.aggregate.explain import result_slice_lines
from penstock.operators.aggregate.over_joins.view import SLICED_RESULTS, hold_over_read
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import AnswerOwner, View, failed, failure_of, filling
from penstock.operators.join.view import read_join
from penstock.sql.plan import Plan, QueryAggregatePlan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.query_state import QueryState


class QueryAggregateView(View):
    """Readers of a join. They have no state of their own: the join's results, and slices of them, are all they need."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        plan, state = _plan_of(views.store, query.id), views.store.state
        below, last = plan.relations[0].table, views.feed.last()
        known = mark.joins.get(state.queries[below].id)
        if known is None or (mark is not last and mark.cycle == views.feed.oldest()):
            raise error("cycle_gone", cycle=mark.cycle, oldest="a later one, for this query")
        told = read_join(views, below, log.for_input(), mark)
        return hold_over_read(told, query, plan, mark.cycle, known.now_us, views.locked)

    def first_answer(self, views: AnswerOwner, query_id: int, after: int) -> int | None:
        return max(after, views.feed.oldest()) + 1  # the rows that it reads appear one cycle later

    def is_resting(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return query.paused or not self.is_ready(store, query)

    def is_ready(self, store: AnswerStore, query: QueryDefinition) -> bool:
        """A paused join can still be read: the results that it has given stay."""
        read = _read(store, query)
        return read is None or read.error is not None or read.ready

    def not_ready(self, store: AnswerStore, query: QueryDefinition) -> PenstockError:
        read = _read(store, query)
        return filling(query.name, (read.progress, None) if read is not None else None)

    def failure(self, store: AnswerStore, query: QueryDefinition) -> PenstockError | None:
        own = store.reader_failures.get(query.id)
        if own is not None:
            return failed("over_budget", own)
        return failure_of(_plan_of(store, query.id).relations[0].table, _read(store, query))

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return store.slices.memory_of(query_id)

    def box(self, plan: Plan) -> tuple[str, tuple[str, ...]]:
        return "slices", (SLICED_RESULTS,)

    def kept_lines(self, views: AnswerOwner, query_id: int) -> list[str]:
        return result_slice_lines(views.store.slices, query_id)

    def runs(self, plan: Plan) -> str:
        return "slices"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return SLICED_RESULTS


def _plan_of(store: AnswerStore, query_id: int) -> QueryAggregatePlan:
    return expect(QueryAggregatePlan, store.spark_plans[query_id])


def _read(store: AnswerStore, query: QueryDefinition) -> QueryState | None:
    return store.read_by(_plan_of(store, query.id))


VIEW = QueryAggregateView()
