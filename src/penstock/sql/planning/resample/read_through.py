"""RESAMPLE of a select-project query, or at its rows: that query is written out, so that the log below it answers."""

from __future__ import annotations

from dataclasses import replace

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.expression import Column, Expr, substituted
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.plan import Resampling, SelectPlan, plan_from_json, resample_name
from penstock.sql.planning.relations import all_of
from penstock.sql.scope import BoundSource, SqlCatalog
from penstock.types import TIMESTAMP


def read_selections(plan: Resampling, times: BoundSource, values: BoundSource, state: SqlCatalog) -> Resampling:
    """The plan in the columns of the tables, with the conditions of the queries that it reads beside its own."""
    read = _selection(times, state)
    if read is not None:
        columns = _columns(read) | {
            resample_name(i): Column(resample_name(i), c.type) for i, c in enumerate(plan.calls)
        }
        plan = replace(
            plan,
            outputs=tuple(replace(o, expr=substituted(o.expr, columns)) for o in plan.outputs),
            having=None if plan.having is None else substituted(plan.having, columns),
            times_predicate=_both(read, plan.times_predicate, columns),
            keys=tuple((substituted(ours, columns), theirs) for ours, theirs in plan.keys),
        )
    read = _selection(values, state)
    if read is not None:
        columns = _columns(read)
        plan = replace(
            plan,
            calls=tuple(replace(call, value=substituted(call.value, columns)) for call in plan.calls),
            values_predicate=_both(read, plan.values_predicate, columns),
            keys=tuple((ours, substituted(theirs, columns)) for ours, theirs in plan.keys),
        )
    return plan


def _selection(source: BoundSource, state: SqlCatalog) -> SelectPlan | None:
    """The selection that a source reads; None for a table."""
    if source.kind != "query":
        return None
    read = plan_from_json(state.queries[source.name].plan).selection
    if read is None:
        raise NotCovered("RESAMPLE of the results of a window join, or at their times, runs as Spark SQL")
    if any(output.expr.type != output.type for output in read.outputs):
        raise NotCovered("RESAMPLE of a column that another query converts runs as Spark SQL")
    return read


def _columns(read: SelectPlan) -> dict[str, Expr]:
    return {output.name: output.expr for output in read.outputs} | {TIME_COLUMN: Column(TIME_COLUMN, TIMESTAMP)}


def _both(read: SelectPlan, own: Expr | None, columns: dict[str, Expr]) -> Expr | None:
    mine = [] if own is None else [substituted(own, columns)]
    return all_of([*mine, *([] if read.stream_predicate is None else [read.stream_predicate])])
