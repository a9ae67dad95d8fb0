"""Take the answer of aggregates over a join at a kept cycle: over the query's own join, or over a join that it reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from penstock.catalog.model import QueryDefinition
from penstock.expr.expression import Column, walk
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate.over_joins.answer import JoinAggregateAt
from penstock.operators.base.table_answer import TableAnswer
from penstock.operators.join.answer import JoinAt
from penstock.sql.plan import AggregatePlan, Output, QueryAggregatePlan
from penstock.views.answer_store import AnswerStore
from penstock.views.query_state import NEVER

Locked = Callable[[], AbstractContextManager[AnswerStore]]


def hold_over_own(
    join: JoinAt, name: str, top: AggregatePlan, locked: Locked, scalars: tuple[TableAnswer, ...]
) -> JoinAggregateAt:
    """`scalars`: the plan's subqueries at the same cycle."""
    span = join.span()
    return JoinAggregateAt(join.cycle, join.query_id, name, join.now_us, join, top, span, locked, scalars=scalars)


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
