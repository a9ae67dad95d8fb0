"""Aggregates over another query: a select-project one is written out, so that its rows are sliced like any other's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.expression import Column, Expr, substituted
from penstock.operators.aggregate.partials.registry import partial_for
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.plan import AggregatePlan, SelectPlan, plan_from_json
from penstock.sql.planning.relations import all_of
from penstock.sql.scope import BoundSource, SqlCatalog
from penstock.types import TIMESTAMP


def read_selection(source: BoundSource, state: SqlCatalog) -> SelectPlan | None:
    """The selection that a source reads; None for a table."""
    if source.kind != "query":
        return None
    read = plan_from_json(state.queries[source.name].plan).selection
    if read is None:
        raise NotCovered("aggregates over the results of a window join run as Spark SQL")
    return read


def read_through(plan: AggregatePlan, read: SelectPlan, name: str) -> AggregatePlan:
    """An aggregation of the columns of a selection as one of the stream below, with the conditions of both.

    NOW is that of the selection's sensors, whatever the reader asks of its columns: those are conditions on readings.
    """
    columns = {o.name: o.expr for o in read.outputs} | {TIME_COLUMN: Column(TIME_COLUMN, TIMESTAMP)}
    plan = renamed(plan, columns)
    asked = (read.stream_predicate, plan.static_predicate, plan.stream_predicate)
    conditions = all_of([condition for condition in asked if condition is not None])
    return replace(plan, static_predicate=read.static_predicate, stream_predicate=conditions, reads=name)


def renamed(plan: AggregatePlan, columns: Mapping[str, Expr]) -> AggregatePlan:
    """The same plan with what stands for each column."""
    aggregates = tuple(
        replace(call, arguments=tuple(substituted(a, columns) for a in call.arguments)) for call in plan.aggregates
    )
    for before, call in zip(plan.aggregates, aggregates, strict=True):
        types = tuple(a.type for a in call.arguments)
        if types != tuple(a.type for a in before.arguments) or partial_for(call.function, types) is None:
            raise NotCovered("aggregates of a column that another query converts run as Spark SQL")
    static, stream = (
        None if condition is None else substituted(condition, columns)
        for condition in (plan.static_predicate, plan.stream_predicate)
    )
    keys = tuple(substituted(key, columns) for key in plan.keys)
    return replace(plan, keys=keys, aggregates=aggregates, static_predicate=static, stream_predicate=stream)
