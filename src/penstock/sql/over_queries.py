"""Aggregates over another query: a select-project one is written out, so that its rows are sliced like any other's."""

from __future__ import annotations

from dataclasses import replace

from penstock.catalog.model import TIME_COLUMN
from penstock.operators.expr import Column, substituted
from penstock.operators.slices.registry import partial_for
from penstock.sql.lower import NotCovered
from penstock.sql.plan import AggregatePlan, SelectPlan, plan_from_json
from penstock.sql.relations import all_of
from penstock.sql.scope import Source, State
from penstock.types import TIMESTAMP


def read_selection(source: Source, state: State) -> SelectPlan | None:
    """The selection that a source reads; None for a table."""
    if source.kind != "query":
        return None
    read = plan_from_json(state.queries[source.name].plan)
    if not isinstance(read, SelectPlan):
        raise NotCovered("aggregates over the results of a window join run as Spark SQL")
    return read


def read_through(plan: AggregatePlan, read: SelectPlan, name: str) -> AggregatePlan:
    """An aggregation of the columns of a selection as one of the stream below, with the conditions of both.

    NOW is that of the selection's sensors, whatever the reader asks of its columns: those are conditions on readings.
    """
    columns = {o.name: o.expr for o in read.outputs} | {TIME_COLUMN: Column(TIME_COLUMN, TIMESTAMP)}
    aggregates = tuple(
        replace(call, arguments=tuple(substituted(a, columns) for a in call.arguments)) for call in plan.aggregates
    )
    for before, call in zip(plan.aggregates, aggregates, strict=True):
        types = tuple(a.type for a in call.arguments)
        if types != tuple(a.type for a in before.arguments) or partial_for(call.function, types) is None:
            raise NotCovered("aggregates of a column that another query converts run as Spark SQL")
    conditions = [c for c in (plan.static_predicate, plan.stream_predicate) if c is not None]
    conditions = [substituted(c, columns) for c in conditions]
    if read.stream_predicate is not None:
        conditions.insert(0, read.stream_predicate)
    return replace(
        plan,
        keys=tuple(substituted(key, columns) for key in plan.keys),
        aggregates=aggregates,
        static_predicate=read.static_predicate,
        stream_predicate=all_of(conditions),
        reads=name,
    )
