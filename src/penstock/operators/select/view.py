"""Selections as readers see them: the rows inside the window, from the matches that are kept."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.windows import FOREVER, AnyWindow, JoinWindows, TimeWindow
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.answer_owner import AnswerOwner
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import KernelView, only_strategy
from penstock.operators.select.answer_at import hold_select
from penstock.sql.plan import Plan, SelectPlan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


class SelectView(KernelView):
    """Selections."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, window = views.query_at(query, mark)
        assert not isinstance(window, JoinWindows)
        ready = None
        if mark is views.feed.last():
            if asked:
                views.storage_choice.note(query.id, mark.cycle)
            chosen = views.storage_choice.of(query.id, found.state, only_strategy(found.state))
            ready = views.ready if chosen == "complete" else None
        plan = expect(SelectPlan, found.state.plan)
        return hold_select(views.store, found, plan, window, log, ready)

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return store.matches.memory_of(query_id)

    def rows_kept(self, store: AnswerStore, query_id: int) -> int:
        known = store.matches.queries[query_id]
        match_store = store.matches.stores.get(known.table_id or 0)
        listed = match_store.view().positions(query_id, 0, FOREVER) if match_store is not None else []
        return sum(len(found) for found in known.matches.values()) + sum(map(len, listed))

    def runs(self, plan: Plan) -> str:
        return "shared pass"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        if plan.kernel is not None and plan.kernel.calls_user_code:
            return "it calls user functions, which only workers run"
        if not isinstance(window, TimeWindow):
            return "a window of rows is cut when asked"
        if plan.kernel is not None and plan.kernel.lasting is not None and asked != "none":
            return "what has to last is looked for when asked"  # late rows take others back, so no answer only grows
        return None


VIEW = SelectView()
