"""What runs in the cycle as several branches: UNION ALL of selections, aggregates over one, and two window joins together.

A path with BOTH WAYS is one join per direction. A FULL JOIN is the LEFT JOIN and the rows of the right side without a partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.expr.windows import TimeWindow
from penstock.operators.union.aggregates.plan import UnionAggregatePlan
from penstock.operators.union.plan import UnionPlan
from penstock.sql.binding.context import BoundQuery
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.plan import AggregateCall, AggregatePlan, Plan, SelectPlan
from penstock.sql.plan.nodes import StreamClock
from penstock.sql.planning.aggregate.planner import (
    AggregateCalls,
    is_aggregation,
    plan_of_rows,
    renamed,
    without_functions,
)
from penstock.sql.planning.join.planner import has_join_branches, join_branches
from penstock.sql.planning.relations import all_of
from penstock.sql.planning.rules import PlanRule
from penstock.sql.planning.selection import predicates, select_plan
from penstock.types import Field

MOST_BRANCHES = 64
# Those that depend on the order of readings have none over several streams.
_ORDERED = frozenset({"first", "last", "twa"})


def applies(bound: BoundQuery) -> bool:
    return _is_union_all(bound.query) or has_join_branches(bound) or _union_below(bound) is not None


def plan(bound: BoundQuery, state: CatalogState) -> Plan:
    if _is_union_all(bound.query):
        rows = _branches(bound, bound.query, bound.fields)
        clocks = _clocks([each.clocks for each in rows])
        return UnionPlan(tuple(replace(each, beside=clocks) for each in rows))
    below = _union_below(bound)
    return UnionPlan(join_branches(bound)) if below is None else _aggregates(bound, below)


def _union_below(bound: BoundQuery) -> exp.Union | None:
    """The UNION ALL that is all that FROM has, where the question aggregates it."""
    context = bound.collected.contexts[0]
    sources = context.sources
    if not is_aggregation(bound) or len(sources) != 1 or sources[0].kind != "derived" or sources[0].name:
        return None
    query = sources[0].node.this if isinstance(sources[0].node, exp.Subquery) else None
    return query if _is_union_all(query) and context.select is bound.query else None


def _branches(bound: BoundQuery, query: exp.Union, columns: Sequence[Field]) -> list[SelectPlan]:
    selects = list(_selects(query))
    if len(selects) > MOST_BRANCHES:
        raise NotCovered(f"UNION ALL of more than {MOST_BRANCHES} SELECTs runs as Spark SQL")
    return [_branch(bound, select, place, columns) for place, select in enumerate(selects, 1)]


def _selects(query: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs that UNION ALL combines, in order."""
    for clause, words in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        if query.args.get(clause) and not isinstance(query, exp.Select):
            raise NotCovered(f"UNION ALL with {words} runs as Spark SQL")
    if isinstance(query, exp.Subquery):
        yield from _selects(query.this)
    elif _is_union_all(query):
        yield from _selects(query.left)
        yield from _selects(query.right)
    elif isinstance(query, exp.Select):
        yield query
    else:
        raise NotCovered(f"{type(query).__name__.upper()} beside UNION ALL runs as Spark SQL")


def _is_union_all(query: exp.Expr | None) -> TypeGuard[exp.Union]:
    return isinstance(query, exp.Union) and not query.args.get("distinct")


def _branch(bound: BoundQuery, select: exp.Select, place: int, columns: Sequence[Field]) -> SelectPlan:
    own = [context for context in bound.collected.contexts if context.select is select]
    below = [context for context in bound.collected.contexts if context.parent in own]
    collected = replace(bound.collected, contexts=[*own, *below])
    try:
        return select_plan(BoundQuery(select, tuple(columns), collected))
    except NotCovered as failure:
        raise NotCovered(f"in SELECT {place} of UNION ALL, {failure}") from None


def _clocks(branches: Sequence[tuple[StreamClock, ...]]) -> tuple[StreamClock, ...]:
    """The streams that decide the NOW of all branches; nothing where it is one stream."""
    found = tuple(dict.fromkeys(clock for clocks in branches for clock in clocks))
    return found if len(found) > 1 else ()


def _aggregates(bound: BoundQuery, below: exp.Union) -> UnionAggregatePlan:
    query, context = bound.query, bound.collected.contexts[0]
    assert isinstance(query, exp.Select)
    top = plan_of_rows(bound, query, AggregateCalls(query, context.scope.panes))
    several = top.own_windows or top.panes is not None or top.by or top.unnest is not None
    if several or context.scope.latch is not None or any(not _merges(call) for call in top.aggregates):
        raise NotCovered("over UNION ALL, aggregates other than plain ones per group run as Spark SQL")
    # All are conditions on readings: sensors are chosen below.
    kept = replace(top, having=None, qualify=None, over=(), sorted=None, stream_predicate=all_of(predicates(query)))
    columns = [Field(column.name, column.type) for column in context.sources[0].columns]
    branches = [_over(kept, rows) for rows in _branches(bound, below, columns)]
    clocks = _clocks([each.clocks for each in branches])
    return UnionAggregatePlan(tuple(replace(each, beside=clocks) for each in branches), without_functions(top))


def _merges(call: AggregateCall) -> bool:
    is_plain = not call.options and call.code is None and not isinstance(call.parameter, tuple)
    return is_plain and call.function not in _ORDERED


def _over(plan: AggregatePlan, rows: SelectPlan) -> AggregatePlan:
    """The aggregates in the columns of the stream that a branch selects from."""
    if not isinstance(rows.window, TimeWindow):
        raise NotCovered("aggregates of the newest rows of a branch run as Spark SQL")
    if rows.lasting is not None or rows.functions:
        raise NotCovered(
            "aggregates of a condition that has to hold FOR some time, or of user functions, run as Spark SQL"
        )
    found = renamed(plan, {output.name: output.expr for output in rows.outputs})
    if [key.type for key in found.keys] != [key.type for key in plan.keys]:
        raise NotCovered("a key that the branches convert runs as Spark SQL")
    return replace(
        found,
        table_id=rows.table_id,
        window=rows.window,
        static_predicate=rows.static_predicate,
        stream_predicate=all_of((rows.stream_predicate, found.stream_predicate)),
    )


RULE = PlanRule(applies, plan)
