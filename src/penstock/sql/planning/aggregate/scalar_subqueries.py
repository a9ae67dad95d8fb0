"""Aggregates beside an aggregate of all: `HAVING AVG(x) < (SELECT AVG(x) FROM the same stream)` as slices of both.

The subquery is an aggregation of its own that answers with one value at the same NOW; the value takes the subquery's place in HAVING,
ORDER BY and the SELECT list when the query is answered. What is around it may be one stream, one with tables beside it, or a window join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from penstock.errors import expect
from penstock.sql.binding.context import BoundQuery, Collected, SelectContext
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.nodes import OwnWindow
from penstock.sql.plan import AggregatePlan, JoinAggregatePlan, JoinPlan, ScalarSubquery, stream_uses
from penstock.sql.planning.aggregate.correlated import is_correlated
from penstock.sql.planning.aggregate.join_results import (
    aggregates_over_join,
    is_stream_with_tables,
    plan_of_results,
    stream_with_tables_plan,
)
from penstock.sql.planning.aggregate.planner import SCALAR, aggregate_plan, is_aggregation
from penstock.sql.planning.join.extraction import extract_join
from penstock.sql.scope import BoundSource
from penstock.sql.values import external, type_of
from penstock.types import Field


def has_scalar_subqueries(bound: BoundQuery) -> bool:
    """Whether aggregates stand beside subqueries that are values and read streams; not those that WHERE compares rows with."""
    return is_aggregation(bound) and not is_correlated(bound) and any(c.reads_streams() for c in _scalars(bound))


def plan_beside_scalars(bound: BoundQuery) -> AggregatePlan | JoinAggregatePlan:
    """The question and its subqueries as slices, or NotCovered with the reason; then nothing has changed."""
    found = _scalars(bound)
    if bound.query.find(OwnWindow) is not None:
        raise NotCovered("an aggregate with a window of its own beside a subquery runs as Spark SQL")
    if any(context.windows.by_alias for context in bound.collected.contexts):
        raise NotCovered("a window FOR one stream beside a subquery runs as Spark SQL")
    scalars: list[ScalarSubquery] = []
    nodes = [_node(context) for context in found]
    try:
        for context, node in zip(found, nodes, strict=True):
            scalar = ScalarSubquery(_inner(context), not context.windows.explicit)
            if scalar not in scalars:
                scalars.append(scalar)
            node.meta[SCALAR] = scalars.index(scalar)
        return _around(bound, found, tuple(scalars))
    finally:
        for node in nodes:
            node.meta.pop(SCALAR, None)  # Spark SQL reads the tree if this came to nothing


def _scalars(bound: BoundQuery) -> list[SelectContext]:
    top, *inner = bound.collected.contexts
    return [context for context in inner if context.role == "scalar" and context.parent is top]


def _node(context: SelectContext) -> exp.Expr:
    node = context.select.parent
    if not isinstance(node, exp.Subquery):
        raise NotCovered("a subquery runs as Spark SQL")
    return node


def _inner(context: SelectContext) -> AggregatePlan:
    """A subquery as aggregates of one stream that make one row."""
    select = context.select
    if any(inner is not select for inner in select.find_all(exp.Select)):
        raise NotCovered("a subquery in a subquery runs as Spark SQL")
    if any(column.meta.get("source") not in context.sources for column in select.find_all(exp.Column)):
        raise NotCovered("a subquery about the group around it runs as Spark SQL")
    if not context.aggregated or select.args.get("group") is not None:
        raise NotCovered("a subquery that need not be one row runs as Spark SQL")
    (item,) = select.expressions
    field = Field(item.alias_or_name, external(type_of(item.unalias())))
    plan = aggregate_plan(BoundQuery(select, (field,), Collected([context])))
    (output,) = plan.outputs
    if output.expr.type != output.type or output.type.kind in ("ARRAY", "STRUCT"):
        raise NotCovered(f"a subquery that is a value of {output.type} runs as Spark SQL")
    if plan.is_approximate:
        raise NotCovered("an approximation in a subquery runs as Spark SQL")
    return plan


def _around(
    bound: BoundQuery, found: list[SelectContext], scalars: tuple[ScalarSubquery, ...]
) -> AggregatePlan | JoinAggregatePlan:
    """The plan of everything else, with the subqueries beside it."""
    collected = replace(bound.collected, contexts=[c for c in bound.collected.contexts if c not in found])
    around = BoundQuery(bound.query, bound.fields, collected)
    top, *others = collected.contexts
    if any(c.parent is not top or c.role not in ("in", "exists") for c in others):
        raise NotCovered("a subquery in FROM, or in another one, runs as Spark SQL")
    one_now = all(_is_transaction_time(source) for context in (top, *found) for source in context.own_streams)

    def check(plan: AggregatePlan | JoinPlan) -> None:
        _check_streams(plan, scalars, one_now)

    if top.graph is not None:
        joined = _over_window_join(around, check)
    elif is_stream_with_tables(around):
        joined = expect(JoinAggregatePlan, stream_with_tables_plan(around, check))
    else:
        plan = aggregate_plan(around)
        if plan.landmarks:
            raise NotCovered("LANDMARK beside a subquery that is one value is not known")
        check(plan)
        return replace(plan, scalars=scalars)
    return replace(joined, top=replace(joined.top, scalars=scalars))


def _is_transaction_time(source: BoundSource) -> bool:
    return source.table is not None and source.table.options.time == "transaction"


def _over_window_join(around: BoundQuery, check_streams: Callable[[JoinPlan], None]) -> JoinAggregatePlan:
    query = around.query
    assert isinstance(query, exp.Select)

    def check(join: JoinPlan) -> None:
        if join.missing != "inner":
            raise NotCovered("aggregates over rows without a partner run as Spark SQL")
        check_streams(join)
        plan_of_results(around, query, False)

    return aggregates_over_join(around, extract_join(around, whole=True, check=check))


def _check_streams(plan: AggregatePlan | JoinPlan, scalars: tuple[ScalarSubquery, ...], one_now: bool) -> None:
    """NOW is the smallest over all streams of a question. A subquery must not move it: an answer does not look at its sensors.

    `one_now`: time passes for all sensors alike.
    """
    uses = stream_uses(plan)
    for scalar in scalars:
        if scalar.plan.table_id not in {use.table_id for use in uses}:
            raise NotCovered("a subquery over another stream runs as Spark SQL")
        same = {use.static_predicate for use in uses if use.table_id == scalar.plan.table_id}
        if scalar.plan.static_predicate not in same and not one_now:
            raise NotCovered("a subquery about other sensors, in valid time, runs as Spark SQL")
        if scalar.inherits and any(use.window != scalar.plan.window for use in uses):
            raise NotCovered("a subquery with another window that it does not say runs as Spark SQL")
    if len({scalar.plan.table_id for scalar in scalars}) > 1:
        raise NotCovered("subqueries over several streams run as Spark SQL")
