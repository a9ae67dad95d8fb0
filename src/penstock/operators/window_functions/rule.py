"""When a question is one with window functions over the readings of one stream, and which of its rows can qualify at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.expr.expression import Call, Column, Expr, Literal, calls_user
from penstock.operators.aggregate.partials.base import NUMBER_KINDS
from penstock.operators.aggregate.partials.top_rows import MOST_ROWS, RowOrder, top_rows_name
from penstock.operators.window_functions.plan import WindowFunctionsPlan
from penstock.sql.binding.context import BoundQuery
from penstock.sql.bound_trees import window_functions
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.plan import UNNESTED, AggregateCall, AggregatePlan, Output, SelectPlan, aggregate_name
from penstock.sql.plan.window_calls import WindowCall, parts_of, window_name
from penstock.sql.planning.row_order import sorting_of
from penstock.sql.planning.rules import PlanRule
from penstock.sql.planning.selection import select_plan
from penstock.sql.planning.window_functions import WindowCalls
from penstock.types import BIGINT, BOOLEAN, Type

CLAUSES = ("qualify", "order", "limit", "offset")
POSITION = "position"


def applies(bound: BoundQuery) -> bool:
    query, context = bound.query, bound.collected.contexts[0]
    if not isinstance(query, exp.Select) or context.select is not query or context.aggregated:
        return False
    order = query.args.get("order")
    trees = [*query.expressions, *(order.expressions if order is not None else [])]
    return query.args.get("qualify") is not None or any(window_functions(tree) for tree in trees)


def plan(bound: BoundQuery, state: CatalogState) -> WindowFunctionsPlan:
    """NotCovered leaves the question as it was."""
    calls = WindowCalls(lower)

    def lowered(node: exp.Expr) -> Expr:
        replaced = node.copy().transform(lambda n: calls.replaced(n) if isinstance(n, exp.Window) else n, copy=False)
        return lower(replaced)

    order = sorting_of(bound, lowered)
    clauses = {clause: bound.query.args.pop(clause, None) for clause in CLAUSES}
    try:
        selected = select_plan(bound, lowered)
        condition = clauses["qualify"]
        qualify = lowered(condition.this) if condition is not None else None
    finally:
        bound.query.args.update({clause: found for clause, found in clauses.items() if found is not None})
    over, rows = tuple(calls.calls), replace(selected, outputs=())
    shown = [output.expr for output in (*selected.outputs, *(order.hidden if order is not None else ()))]
    if any(calls_user(e) for e in (*parts_of(over), *shown, *([qualify] if qualify is not None else []))):
        raise NotCovered("a user's function beside a window function runs as Spark SQL")
    top = top_of(rows, over, qualify)
    return WindowFunctionsPlan(rows, over, selected.outputs, qualify, top, order)


def top_of(rows: SelectPlan, over: tuple[WindowCall, ...], qualify: Expr | None) -> AggregatePlan | None:
    """The first rows of each partition, where QUALIFY asks for no others and nothing else is asked of the rest."""
    asked = dict[int, int](_most_ranks(qualify)) if qualify is not None else {}
    place = next((p for p in asked if over[p].function in ("row_number", "rank")), None)
    if place is None or rows.lasting is not None or rows.calls_user_code:
        return None
    call, most = over[place], asked[place]
    alike = all(
        c.function in ("row_number", "rank") and (c.partition, c.order) == (call.partition, call.order) for c in over
    )
    if not alike or not 1 <= most <= MOST_ROWS or any(key.expr.type.kind not in NUMBER_KINDS for key in call.order):
        return None
    keys = tuple((key.descending, key.nulls_first) for key in call.order)
    function = top_rows_name(RowOrder(most, call.function == "rank", keys))
    arguments = [e for key in call.order for e in (Call("is_null", (key.expr,), BOOLEAN), key.expr)]
    positions = Type("ARRAY", element=BIGINT)
    return AggregatePlan(
        table_id=rows.table_id,
        keys=call.partition,
        aggregates=(AggregateCall(function, tuple(arguments), positions),),
        outputs=(Output(POSITION, BIGINT, Column(UNNESTED, BIGINT)),),
        window=rows.window,
        static_predicate=rows.static_predicate,
        stream_predicate=rows.stream_predicate,
        unnest=Column(aggregate_name(0), positions),
    )


def _most_ranks(condition: Expr) -> Iterator[tuple[int, int]]:
    """Which window functions a condition bounds from above, and by what."""
    match condition:
        case Call("and", terms):
            for term in terms:
                yield from _most_ranks(term)
        case Call(("le" | "lt" | "eq") as how, (Column(name), Literal(int(most)))) if name.startswith(
            window_name(0)[:-1]
        ):
            yield int(name.rpartition(".")[2]), most - (how == "lt")
        case Call(("ge" | "gt") as how, (Literal(int(most)), Column(name))) if name.startswith(window_name(0)[:-1]):
            yield int(name.rpartition(".")[2]), most - (how == "gt")


RULE = PlanRule(applies, plan, one_stream=True, decides=False)
