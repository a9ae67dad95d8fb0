"""Aggregations over the query's own window join as readers see them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.expr.expression import Column, walk
from penstock.expr.windows import FOREVER, AnyWindow, JoinWindows, TimeWindow
from penstock.operators.aggregate.explain import result_slice_lines, scalar_slice_lines
from penstock.operators.aggregate.final_panes import final_panes
from penstock.operators.aggregate.over_joins.answer import JoinAggregateAt
from penstock.operators.aggregate.view import hold_scalars
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import Classification, FinalRows
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import AnswerOwner
from penstock.operators.join.answer import JoinAt
from penstock.operators.join.view import JoinView, join_at, join_bound
from penstock.sql.plan import JoinAggregatePlan, Output, Plan, QueryAggregatePlan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.query_state import NEVER

Locked = Callable[[], AbstractContextManager[AnswerStore]]


def hold_over_read(
    told: JoinAt, definition: QueryDefinition, plan: QueryAggregatePlan, cycle: int, now_us: int | None, locked: Locked
) -> JoinAggregateAt:
    """`told`: the results of the other query, as readers see them at the cycle; NOW is that of its streams."""
    (relation,), top = plan.relations, plan.top
    assert isinstance(relation.window, TimeWindow)
    span = None
    if now_us is not None or not relation.window.slides:
        start = definition.start_us if definition.start_us is not None else NEVER
        span = relation.window.resolve(now_us if now_us is not None else FOREVER, start)
    asked = [*top.keys, *(a for call in top.aggregates for a in call.arguments), top.stream_predicate]
    columns = {n.name: n.type for e in asked if e is not None for n in walk(e) if isinstance(n, Column)}
    outputs = tuple(Output(column, type_, Column(column, type_)) for column, type_ in columns.items())
    told = replace(told, plan=replace(told.plan, outputs=outputs))
    return JoinAggregateAt(cycle, definition.id, definition.name, now_us, told, top, span, locked, reads=True)


SLICED_RESULTS = (
    "slices of a join's results are kept, a window adds up those inside it when asked;"
    " with none, every request would join the rows again"
)


class JoinAggregateView(JoinView):
    """Aggregations of what a join step finds: the results are kept as those of any join."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, window = views.query_at(query, mark)
        windows, top = expect(JoinWindows, window), found.state.top
        assert top is not None
        join = join_at(views, found, windows, log.for_input())
        scalars = hold_scalars(views, found, join.now_us, windows.by_input[0], log)
        whole = expect(JoinAggregatePlan, found.state.whole)
        return JoinAggregateAt(
            mark.cycle,
            query.id,
            query.name,
            join.now_us,
            join,
            top,
            join.span(),
            views.locked,
            scalars=scalars,
            reach_us=whole.reach_us,
        )

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return super().memory(store, query_id) + store.slices.memory_of(query_id)

    def check_change(self, name: str, plan: Plan, state: CatalogState) -> None:
        """No query reads the results below it."""

    def kept_lines(self, views: AnswerOwner, query_id: int) -> list[str]:
        slices, scalars = views.store.slices, views.store.answers[query_id].scalars
        return [*result_slice_lines(slices, query_id), *scalar_slice_lines(slices, query_id, scalars)]

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        whole = expect(JoinAggregatePlan, plan)
        join, reach_us = whole.join, whole.reach_us
        tables = [each.table_id for each in join.inputs]
        if join.missing != "inner" or reach_us is None:
            final = FinalRows("never", "a row of the join below may come or go at any later time")
        else:
            final = final_panes(whole.top, join.inputs[0].window, tables, reach_us, state)
        return Classification(final, join_bound(join, state))

    def runs(self, plan: Plan) -> str:
        return f"{super().runs(plan)}, then slices"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return SLICED_RESULTS


VIEW = JoinAggregateView()
