"""One stream beside ordinary tables -> a join of one stream, or slices of its results.

A join of one stream has no windows between streams: each reading is complete at once, and meets the tables as they are when it
is logged. What stands on top is all or nothing: what slices do not cover runs as Spark SQL over the log, as if there were no join.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.operators.join.kernels.bounds import close
from penstock.sql.binding.context import BoundQuery, WindowGraph
from penstock.sql.plan import JoinAggregatePlan, JoinPlan
from penstock.sql.planning.aggregate.join_results import aggregates_over_join, check_aggregates
from penstock.sql.planning.aggregate.own_windows import share_own_window
from penstock.sql.planning.aggregate.planner import is_aggregation
from penstock.sql.planning.join.at_most_one_result import gives_one_each
from penstock.sql.planning.join.extraction import extract_join
from penstock.sql.planning.join.planner import join_plan


def is_stream_with_tables(bound: BoundQuery) -> bool:
    """Whether FROM has one stream, and all that stands beside it, there and in subqueries, is ordinary tables."""
    top, *inner = bound.collected.contexts
    if top.select is not bound.query or top.algorithm is not None or any(c.graph for c in (top, *inner)):
        return False
    streams = [source for source in top.sources if source.kind == "sensors"]
    tables = [source for context in (top, *inner) for source in context.sources if source not in streams]
    return (
        [(stream.needs_stream, stream.nullable) for stream in streams] == [(True, False)]
        and bool(tables)
        and all(table.kind == "ordinary" for table in tables)
    )


def stream_with_tables_plan(
    bound: BoundQuery, check: Callable[[JoinPlan], None] = lambda join: None
) -> JoinPlan | JoinAggregatePlan:
    """The question as a join of its one stream, or NotCovered with the reason. `check` raises it where the join does not suffice."""
    top = bound.collected.contexts[0]
    stream = next(source for source in top.sources if source.kind == "sensors")
    top.graph = WindowGraph((stream,), close(1, ()))
    try:
        if not is_aggregation(bound):
            return join_plan(bound)
        assert isinstance(bound.query, exp.Select)
        share_own_window(top)
        contexts = bound.collected.contexts
        tables = {s.table.id: s.table for context in contexts for s in context.sources if s.table is not None}
        query = bound.query

        def suffices(join: JoinPlan) -> None:
            check(join)
            check_aggregates(bound, query, gives_one_each(join, tables))

        # Once FROM reads the join's rows there is no way back to the log.
        join = extract_join(bound, whole=True, check=suffices)
        return aggregates_over_join(bound, join, gives_one_each(join, tables))
    finally:
        top.graph = None
