"""Aggregations over one stream as readers see them: the slices inside the window are added up when asked."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.windows import AnyWindow, JoinWindows
from penstock.operators.aggregate.answer_at import hold_aggregate
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.answer_owner import AnswerOwner
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import KernelView
from penstock.sql.plan import AggregatePlan, Plan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


class AggregateView(KernelView):
    """Aggregations, also with LATCH."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, window = views.query_at(query, mark)
        assert not isinstance(window, JoinWindows)
        return hold_aggregate(views, found, expect(AggregatePlan, found.state.plan), window, log)

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return store.slices.memory_of(query_id)

    def rows_kept(self, store: AnswerStore, query_id: int) -> int:
        return 0  # cells stand for rows

    def runs(self, plan: Plan) -> str:
        return "slices"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "slices are kept, a window adds up those inside it when asked"


VIEW = AggregateView()
