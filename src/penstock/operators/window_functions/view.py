"""Questions with window functions over readings, as readers see them."""

from __future__ import annotations

from penstock.catalog.model import TIME_COLUMN, QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.expr.expression import Column
from penstock.expr.windows import AnyWindow, TimeWindow
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import Classification, FinalRows, final_by_watermark
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.view import AnswerOwner, View, view_of
from penstock.operators.base.window_rows import SegmentsOf
from penstock.operators.window_functions.answer import WindowFunctionsAt, kept_rows
from penstock.operators.window_functions.plan import WindowFunctionsPlan
from penstock.sql.plan import Plan
from penstock.types import TIMESTAMP
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


def _below(store: AnswerStore, query: QueryDefinition) -> View:
    """What keeps the rows: matches of a selection, or cells of an aggregation."""
    answer = store.answers.get(query.id)
    return view_of(answer.operator if answer is not None else "select")


class WindowFunctionsView(View):
    """The rows are kept as those of a selection, or in cells with the first ones of each partition."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        below = _below(views.store, query).at(views, query, mark, log, asked)
        state = views.store.state
        plan = expect(WindowFunctionsPlan, views.store.answers[query.id].whole)
        table = state.tables_by_id[plan.rows.table_id]
        static, head = state.rows(table.id), mark.end.data.get(table.id, 0)

        def reader() -> LogReader:
            return log.reader(table, static, head)

        return WindowFunctionsAt(
            mark.cycle,
            query.id,
            plan,
            below,
            reader,
            lambda: log.fresh(table, static),
            views.locked,
            mark.watermarks.get(table.id),
        )

    def memory(self, store: AnswerStore, query_id: int) -> int:
        answer = store.answers.get(query_id)
        below = view_of(answer.operator).memory(store, query_id) if answer is not None else 0
        return below + kept_rows(store).nbytes(query_id)

    def is_resting(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return _below(store, query).is_resting(store, query)

    def is_ready(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return _below(store, query).is_ready(store, query)

    def fills_long(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return _below(store, query).fills_long(store, query)

    def filled(self, store: AnswerStore, query: QueryDefinition) -> tuple[float, float | None] | None:
        return _below(store, query).filled(store, query)

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        asked = expect(WindowFunctionsPlan, plan)
        below = asked.kernel
        return Classification(_final_rows(asked, state), view_of(below.operator).classify(below, state).state)

    def full_window_bytes(self, plan: Plan, state: CatalogState, segments_of: SegmentsOf) -> int | None:
        below = expect(WindowFunctionsPlan, plan).kernel
        return view_of(below.operator).full_window_bytes(below, state, segments_of)

    def runs(self, plan: Plan) -> str:
        return "shared pass, ordered" if expect(WindowFunctionsPlan, plan).top is None else "slices, first rows"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "rows are put into order when asked"


def _final_rows(plan: WindowFunctionsPlan, state: CatalogState) -> FinalRows:
    """What LAG and LEAD see by time cannot change any more, unless it leaves a window that moves."""
    window, table = plan.rows.window, state.tables_by_id.get(plan.rows.table_id)
    by_time = all(
        call.function in ("lag", "lead") and [(key.expr, key.descending) for key in call.order] == [(_TIME, False)]
        for call in plan.over
    )
    facts = (
        (plan.top is not None, "it is the first rows of each partition, as they are now"),
        (not by_time, "ranks, and what another order than by ts finds, depend on readings that may still come"),
        (
            not isinstance(window, TimeWindow) or window.slides,
            "BEGIN moves on, past the readings that LAG and LEAD look at",
        ),
        (
            table is None or table.options.retention_us is not None,
            "retention takes the readings that LAG and LEAD look at",
        ),
        (plan.rows.lasting is not None, "a late reading may break or mend what has to last"),
        (plan.sorted is not None, "ORDER BY and LIMIT depend on rows that are not final"),
    )
    never = next((why for holds, why in facts if holds), None)
    if never is not None:
        return FinalRows("never", never)
    leads = any(call.function == "lead" for call in plan.over)
    passed = "the last reading that LEAD looks at" if leads else "the reading"
    return final_by_watermark(f"once the watermark has passed {passed}", (plan.rows.table_id,), state)


_TIME = Column(TIME_COLUMN, TIMESTAMP)
VIEW = WindowFunctionsView()
