"""Window joins as readers see them: the results inside their windows."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.windows import AnyWindow, JoinWindows
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.answer_owner import AnswerOwner
from penstock.operators.base.blocks import size_of
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import KernelView
from penstock.operators.join.answer_at import join_at
from penstock.sql.plan import Plan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


class JoinView(KernelView):
    """Window joins, and joins of a stream with tables."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, windows = views.query_at(query, mark)
        return join_at(views, found, expect(JoinWindows, windows))

    def memory(self, store: AnswerStore, query_id: int) -> int:
        known = store.joins.queries[query_id]
        own = size_of(known.partners.blocks) + sum(results.nbytes for results in known.lists)
        return own + store.matches.memory_of(query_id)

    def rows_kept(self, store: AnswerStore, query_id: int) -> int:
        return store.joins.queries[query_id].results.count

    def runs(self, plan: Plan) -> str:
        return words_of(plan)

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "a join's results are kept, its window is cut when asked"


def words_of(plan: Plan) -> str:
    """What the join of a plan is called."""
    join = plan.window_join
    return "join with tables" if join is not None and len(join.inputs) == 1 else "window join"


VIEW = JoinView()
