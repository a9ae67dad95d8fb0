"""Window joins as readers see them: the results inside their windows."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.windows import AnyWindow, JoinWindows
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.answer_owner import AnswerOwner
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import KernelView
from penstock.operators.join.answer_at import join_at
from penstock.operators.select.evaluated_matches import size_of
from penstock.sql.plan import Plan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


class JoinView(KernelView):
    """Window joins, and joins of a stream with tables."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, windows = views.query_at(query, mark)
        return join_at(views, found, expect(JoinWindows, windows))

    def memory(self, store: AnswerStore, query_id: int) -> int:
        answer = store.answers[query_id]
        own = size_of(answer.matches) + size_of(answer.partners.blocks)
        own += sum(r.nbytes for r in (answer.results, answer.coming, *answer.earlier) if r is not None)
        match_store = store.match_stores.get(answer.plan.uses[0].table_id)
        return own + (match_store.share(query_id) if match_store is not None else 0)

    def rows_kept(self, store: AnswerStore, query_id: int) -> int:
        results = store.answers[query_id].results
        return results.count if results is not None else 0

    def runs(self, plan: Plan) -> str:
        return words_of(plan)

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "a join's results are kept, its window is cut when asked"


def words_of(plan: Plan) -> str:
    """What the join of a plan is called."""
    join = plan.window_join
    return "join with tables" if join is not None and len(join.inputs) == 1 else "window join"


VIEW = JoinView()
