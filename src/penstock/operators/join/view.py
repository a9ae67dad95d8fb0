"""Window joins as readers see them: the results inside their windows."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import error, expect
from penstock.expr.windows import AnyWindow, JoinWindows
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.blocks import size_of
from penstock.operators.base.finality import (
    Classification,
    FinalRows,
    StateBound,
    final_by_watermark,
    together,
    while_kept,
    window_bound,
)
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import AnswerOwner, QueryAt, View
from penstock.operators.base.window_rows import SegmentsOf, full_window_rows
from penstock.operators.join.answer import InputTable, JoinAt
from penstock.operators.join.buffer_budget import check_join_fits
from penstock.operators.join.readers import check_readers
from penstock.sql.plan import JoinPlan, Plan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.retention import kept_from

# What the list of results keeps of each: its times, and a log position per stream.
_RESULT_BYTES, _POSITION_BYTES = 16, 8


def join_at(views: AnswerOwner, query: QueryAt, windows: JoinWindows, log: LogAccess) -> JoinAt:
    """A join through windows; cycle_gone where the results as of the cycle are not kept any more."""
    join = hold_join(views.store, query, expect(JoinPlan, query.state.plan), windows, log)
    if join is None:
        oldest = f"{views.answers_from(query.id)}, for this query"
        raise error("cycle_gone", cycle=query.mark.cycle, oldest=oldest)
    return join


def own_join(views: AnswerOwner, name: str, log: LogAccess) -> JoinAt:
    """The join that a query is or stands on, now."""
    with views.locked() as store:
        mark = views.feed.last()
        assert mark is not None
        query, window = views.query_at(store.state.queries[name], mark)
        return join_at(views, query, expect(JoinWindows, window), log)


def read_join(views: AnswerOwner, name: str, log: LogAccess, mark: Mark | None = None) -> JoinAt:
    """A join as its readers see it at a cycle: one cycle later, and also outside the join's own window."""
    with views.locked() as store:
        query_id = store.state.queries[name].id
        answer = store.answers[query_id]
        mark = mark or views.feed.last()
        assert mark is not None
        before = views.feed.mark(mark.cycle - 1) if mark.cycle > views.feed.oldest() else mark
        # A join shows the results of its history at once: no later cycle is needed.
        mark = before if views.windows.at(query_id, before.cycle) is not None else mark
        return join_at(views, QueryAt(query_id, name, answer, mark), expect(JoinWindows, answer.window), log)


def hold_join(
    store: AnswerStore, query: QueryAt, plan: JoinPlan, windows: JoinWindows, log: LogAccess
) -> JoinAt | None:
    """None where the results as of the cycle are not kept any more."""
    answer, mark = query.state, query.mark
    state, at = store.state, mark.joins[query.id]
    known = store.joins.queries[query.id]
    kept = [r for r in (known.results, *known.earlier) if r.generation == at.generation]
    if not kept:
        return None
    inputs = tuple(
        InputTable(
            state.tables_by_id[i.table_id],
            state.rows(i.table_id),
            state.retention(i.table_id),
            mark.end.data.get(i.table_id, 0),
        )
        for i in plan.inputs
    )
    return JoinAt(
        cycle=mark.cycle,
        query_id=query.id,
        plan=plan,
        inputs=inputs,
        results=kept[0],
        count=at.count,
        alone=known.partners.without(store.matches.queries[query.id].own.matches, mark.cycle)
        if plan.missing != "inner"
        else {},
        windows=windows,
        now_us=at.now_us,
        start_us=answer.start_us,
        log=log,
        tables=tuple(state.rows(t.table_id) for t in plan.tables),
        watermarks=tuple(mark.watermarks.get(i.table_id) for i in plan.inputs),
        kept_from_us=max(kept_from(store, each.table) for each in inputs),
    )


class JoinView(View):
    """Window joins, and joins of a stream with tables."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, windows = views.query_at(query, mark)
        return join_at(views, found, expect(JoinWindows, windows), log)

    def check_room(self, views: AnswerOwner, plan: Plan, before: Plan | None, state: CatalogState) -> None:
        if before is None and plan.window_join is not None:
            check_join_fits(plan.window_join, views.folder.log, views.settings)

    def check_change(self, name: str, plan: Plan, state: CatalogState) -> None:
        check_readers(name, plan, state)

    def full_window_bytes(self, plan: Plan, state: CatalogState, segments_of: SegmentsOf) -> int | None:
        """As if each reading of the first stream found one partner: how many it finds is not known before."""
        join = plan.window_join
        assert join is not None
        rows = full_window_rows(join.inputs[0].window, segments_of(join.inputs[0].table_id))
        return rows * (_RESULT_BYTES + _POSITION_BYTES * len(join.inputs)) if rows is not None else None

    def memory(self, store: AnswerStore, query_id: int) -> int:
        known = store.joins.queries[query_id]
        own = size_of(known.partners.blocks) + sum(results.nbytes for results in known.lists)
        return own + store.matches.memory_of(query_id)

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        join = plan.window_join
        assert join is not None
        return Classification(_final_rows(join, state), join_bound(join, state))

    def runs(self, plan: Plan) -> str:
        return words_of(plan)

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "a join's results are kept, its window is cut when asked; with none, every request would join the rows again"


def _final_rows(plan: JoinPlan, state: CatalogState) -> FinalRows:
    upper = plan.bounds[0][-1]
    if plan.missing == "inner":
        return FinalRows("at once", "what has been found together stays together")
    if plan.missing not in ("left", "anti") or upper is None:
        return FinalRows("never", "a partner may come at any later time")
    reason = "with a partner at once; without one, once the watermark of the other stream has passed the join's window"
    final = final_by_watermark(reason, (plan.inputs[-1].table_id,), state)
    return while_kept(final, (plan.inputs[0].window,), max(upper, 0), state)


def join_bound(plan: JoinPlan, state: CatalogState) -> StateBound:
    """What a join keeps: the readings that may still find a partner, and its results."""
    inputs = enumerate(plan.inputs)
    return together(window_bound(i.window, state.tables_by_id.get(i.table_id), place) for place, i in inputs)


def words_of(plan: Plan) -> str:
    """What the join of a plan is called."""
    join = plan.window_join
    return "join with tables" if join is not None and len(join.inputs) == 1 else "window join"


VIEW = JoinView()
