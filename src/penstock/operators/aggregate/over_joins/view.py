"""Aggregations over the query's own window join as readers see them."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.windows import AnyWindow, JoinWindows
from penstock.operators.aggregate.answer_at import hold_scalars
from penstock.operators.aggregate.over_joins.answer_at import hold_over_own
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.answer_owner import AnswerOwner
from penstock.operators.base.log_access import LogAccess
from penstock.operators.join.answer_at import join_at
from penstock.operators.join.view import JoinView
from penstock.sql.plan import Plan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark

SLICED_RESULTS = "slices of a join's results are kept, a window adds up those inside it when asked"


class JoinAggregateView(JoinView):
    """Aggregations of what a join step finds: the results are kept as those of any join."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, window = views.query_at(query, mark)
        windows, top = expect(JoinWindows, window), found.state.top
        assert top is not None
        join = join_at(views, found, windows)
        scalars = hold_scalars(views, found, join.now_us, windows.by_input[0], log)
        return hold_over_own(join, query.name, top, views.locked, scalars)

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return super().memory(store, query_id) + store.slices.memory_of(query_id)

    def runs(self, plan: Plan) -> str:
        return f"{super().runs(plan)}, then slices"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return SLICED_RESULTS


VIEW = JoinAggregateView()
