"""Queries with RESAMPLE as readers see them: values are found in the log when asked."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.windows import AnyWindow
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import AnswerOwner, View, cycle_gone
from penstock.operators.resample.answer_at import hold_resampled, request_at
from penstock.sql.plan import Plan, ResamplePlan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


class ResampleView(View):
    """Values of one stream at the readings of another. Nothing is kept but the last samples."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        known = mark.resampled.get(query.id)
        if known is None:
            raise cycle_gone(views, query.id, mark.cycle)
        request, most = request_at(query.id, mark, known), views.settings.result_max_rows
        return hold_resampled(views.store, request, log, most, views.samples)

    def first_answer(self, views: AnswerOwner, query_id: int, after: int) -> int | None:
        return views.feed.first_resampled(query_id, after)

    def is_resting(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return query.paused

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return 0

    def runs(self, plan: Plan) -> str:
        return "log, when asked"

    def window(self, plan: Plan) -> str | None:
        return str(plan.relations[expect(ResamplePlan, plan).resample.times].window)

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "values are found in the log when asked"


VIEW = ResampleView()
