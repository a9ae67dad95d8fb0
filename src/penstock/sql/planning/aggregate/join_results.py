"""Aggregates over the rows of a window join -> slices of its results, or NotCovered with the reason why they stay Spark SQL.

The join is the question's own, or another query that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.expr.expression import Column
from penstock.operators.join.kernels.bounds import close
from penstock.sql.binding.context import BoundQuery, WindowGraph
from penstock.sql.binding.window_joins import read_outputs
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.plan import AggregatePlan, JoinAggregatePlan, JoinPlan, JoinTable, plan_from_json
from penstock.sql.planning.aggregate.planner import (
    AggregateCalls,
    is_aggregation,
    plan_of_rows,
    renamed,
    without_functions,
)
from penstock.sql.planning.aggregate.windows import share_own_window
from penstock.sql.planning.join.extraction import extract_join
from penstock.sql.planning.join.planner import join_plan
from penstock.sql.planning.relations import all_of
from penstock.sql.planning.selection import one_stream, predicates

# What depends on an order of rows, which the results of a join need not have.
_ORDERED = frozenset({"first", "last"})


def aggregates_over_join(bound: BoundQuery, join: JoinPlan, ordered: bool = False) -> JoinAggregatePlan:
    """What stands on a join as slices of its results. To be called once its rows stand in FROM (`join.extraction.extract_join`).

    `ordered`: each reading has at most one result (`gives_one_each`).
    """
    query, contexts = bound.query, bound.collected.contexts
    if not isinstance(query, exp.Select) or len(contexts) != 1 or [s.kind for s in contexts[0].sources] != ["core"]:
        raise NotCovered("aggregates of more than the join's own rows run as Spark SQL")
    if query.args.get("where") is not None:
        raise NotCovered("a condition that the join cannot decide runs as Spark SQL")
    if join.missing != "inner":
        raise NotCovered("aggregates over rows without a partner run as Spark SQL")
    if contexts[0].windows.by_alias and len(join.inputs) > 1:
        raise NotCovered("aggregates over streams with windows of their own run as Spark SQL")
    return JoinAggregatePlan(join, plan_of_results(bound, query, ordered))


def aggregates_over_read_join(bound: BoundQuery, state: CatalogState) -> AggregatePlan | None:
    """Aggregates over the rows of another query that is a window join, in the names of that join; None where none is read."""
    sources = bound.collected.contexts[0].sources
    reads = [plan_from_json(state.queries[s.name].plan).pure_join for s in sources if s.kind == "query"]
    if len(sources) != 1 or not reads or reads[0] is None:
        return None
    query, _ = one_stream(bound, queries=True)
    read = reads[0]
    if read.missing != "inner":
        raise NotCovered("aggregates over rows without a partner run as Spark SQL")
    columns = {output.name: output.expr for output in read_outputs(read)}
    over = plan_of_results(bound, query, gives_one_each(read, state.tables_by_id))
    if over.own_windows:
        raise NotCovered("aggregates of another query's rows with several windows run as Spark SQL")
    top = renamed(replace(over, stream_predicate=all_of(predicates(query))), columns)
    return without_functions(top, "aggregates of what another query's functions computed run as Spark SQL")


def plan_of_results(bound: BoundQuery, query: exp.Select, ordered: bool) -> AggregatePlan:
    """What stands on a join, or NotCovered; nothing is changed."""
    edges = bound.collected.contexts[0].scope.panes
    if edges is not None and edges.landmark is not None:
        raise NotCovered("LANDMARK over the results of a join is not known")
    top = plan_of_rows(bound, query, AggregateCalls(query, edges))
    if top.own_windows and top.panes is not None:
        raise NotCovered("an aggregate with a window of its own beside TUMBLE or SLIDE runs as Spark SQL")
    if top.session_us:
        raise NotCovered("SESSION over a join runs as Spark SQL")
    for call in top.aggregates:
        out_of_order = call.function in _ORDERED and not ordered
        if out_of_order or call.function == "twa" or isinstance(call.parameter, tuple) or call.options or call.code:
            raise NotCovered(f"{call.function.upper()} over a join runs as Spark SQL")
    return without_functions(top)


# -- one stream beside ordinary tables: a join of one stream, or slices of its results
#
# It has no windows between streams: each reading is complete at once, and meets the tables as they are when it is logged. What
# stands on top is all or nothing: what slices do not cover runs as Spark SQL over the log, as if there were no join.


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
            plan_of_results(bound, query, gives_one_each(join, tables))

        # Once FROM reads the join's rows there is no way back to the log.
        join = extract_join(bound, whole=True, check=suffices)
        return aggregates_over_join(bound, join, gives_one_each(join, tables))
    finally:
        top.graph = None


def gives_one_each(join: JoinPlan, tables: Mapping[int, Table]) -> bool:
    """Whether each reading has at most one result, so that there is a first and a last.

    Of several streams one reading meets many: combinations of the same time would have no order.
    """
    return len(join.inputs) == 1 and all(_meets_one_row(each, tables[each.table_id]) for each in join.tables)


def _meets_one_row(joined: JoinTable, table: Table) -> bool:
    """Whether the table says only that a row is there, or is looked up by its whole primary key."""
    looked_up = {own.name for _, own in joined.keys if isinstance(own, Column)}
    return not joined.is_shown or (bool(table.key) and looked_up.issuperset(table.key))
