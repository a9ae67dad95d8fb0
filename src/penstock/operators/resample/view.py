"""Queries with RESAMPLE as readers see them: values are found in the log when asked."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.expr.windows import AnyWindow, TimeWindow
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import (
    Classification,
    FinalRows,
    final_by_watermark,
    together,
    while_kept,
    window_bound,
)
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import AnswerOwner, View, cycle_gone
from penstock.operators.resample.answer_at import hold_resampled, request_at
from penstock.sql.explain.plan import show_resample
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

    def box(self, plan: Plan) -> tuple[str, tuple[str, ...]]:
        asked = expect(ResamplePlan, plan)
        return "resample", (*map(show_resample, asked.resample.calls), asked.reason)

    def window(self, plan: Plan) -> str | None:
        return str(plan.relations[expect(ResamplePlan, plan).resample.times].window)

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        asked = expect(ResamplePlan, plan)
        tables = [state.tables.get(relation.table) for relation in asked.relations]
        looks = enumerate(zip(asked.relations, tables, strict=True))
        bounds = [window_bound(r.window, table, place) for place, (r, table) in looks if r.window is not None]
        return Classification(_final_rows(asked, state), together(bounds))

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "values are found in the log when asked"


def _final_rows(plan: ResamplePlan, state: CatalogState) -> FinalRows:
    asked = plan.resample
    times, values = plan.relations[asked.times], plan.relations[asked.values]
    table, order = state.tables.get(values.table), asked.sorted
    if values.kind != "stream" or table is None:
        return FinalRows("never", "its values are those of another query")
    if order is not None and (order.limit is not None or order.offset > 0 or order.distinct):
        return FinalRows("never", "LIMIT, OFFSET and DISTINCT depend on rows that are not final")
    if not isinstance(times.window, TimeWindow) or not isinstance(values.window, TimeWindow):
        return FinalRows("never", "LAST n ROWS goes on with each reading")
    reaches = times.window.begin.offset_us - asked.back_us >= values.window.begin.offset_us
    if times.window.begin.anchor != values.window.begin.anchor or not reaches:
        return FinalRows("never", "its values leave a window of their own")
    reason = "once the watermark of the values has passed all that count at a time"
    final = while_kept(final_by_watermark(reason, (table.id,), state), (times.window,), asked.ahead_us, state)
    return while_kept(final, (), asked.back_us + asked.ahead_us, state)


VIEW = ResampleView()
