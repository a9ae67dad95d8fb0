"""Questions with window functions over readings, as readers see them."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.windows import AnyWindow
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.view import AnswerOwner, View, view_of
from penstock.operators.window_functions.answer import WindowFunctionsAt, kept_rows
from penstock.operators.window_functions.plan import WindowFunctionsPlan
from penstock.sql.plan import Plan
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
            mark.cycle, query.id, plan, below, reader, lambda: log.fresh(table, static), views.locked
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

    def runs(self, plan: Plan) -> str:
        return "shared pass, ordered" if expect(WindowFunctionsPlan, plan).top is None else "slices, first rows"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "rows are put into order when asked"


VIEW = WindowFunctionsView()
