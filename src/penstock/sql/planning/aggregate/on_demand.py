"""Which questions are nothing but aggregates over another query's answer, so that a tree over it can say them.

Asked once, COUNT, SUM, AVG, MIN and MAX over all rows of one select-project query or window join, inside a window or
not, and expressions of them. Whatever else stands in the question makes it Spark SQL.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.expr.expression import Expr, Literal, calls_user
from penstock.expr.windows import EVERYTHING, TimeWindow
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.binding.context import BoundQuery, SelectContext
from penstock.sql.bound_trees import output_column
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.plan import Aggregate, OnDemand, Output, plan_from_json
from penstock.sql.planning.aggregate.planner import PLAIN
from penstock.sql.values import DURATION, external, type_of
from penstock.types import BIGINT

_NUMBERS = ("INT", "BIGINT", "DOUBLE")
EVERY_ROW = Literal(1, BIGINT)


def on_demand(bound: BoundQuery, state: CatalogState) -> OnDemand | None:
    """The aggregates over one query's answer that a question asks for; None where it asks for more."""
    context = bound.collected.contexts[0]
    if context.select is not bound.query or not context.aggregated or len(context.sources) != 1:
        return None
    allowed = ("expressions", "from_", "begin_end")
    if any(value for key, value in context.select.args.items() if key not in allowed):
        return None
    try:
        return _taken(bound, context, _window(context, state))
    except NotCovered:
        return None


def _window(context: SelectContext, state: CatalogState) -> TimeWindow | None:
    """The reader's window; None where it sees whatever the query's own one shows."""
    source = context.sources[0]
    if source.kind == "query" and isinstance(source.window, TimeWindow):
        return source.window
    definition = state.queries.get(source.name) if source.kind == "derived" and source.name else None
    if definition is None or plan_from_json(definition.plan).pure_join is None:
        raise NotCovered("only select-project queries and window joins have an answer in time order")
    window = context.windows.of(source.alias)
    return window if isinstance(window, TimeWindow) and window != EVERYTHING else None


def _taken(bound: BoundQuery, context: SelectContext, window: TimeWindow | None) -> OnDemand:
    aggregates: list[Aggregate] = []
    outputs = tuple(
        Output(field.name, field.type, _lowered(item.this, aggregates))
        for field, item in zip(bound.fields, context.select.expressions, strict=True)
    )
    return OnDemand(context.sources[0].name, window, tuple(aggregates), outputs)


def _lowered(node: exp.Expr, aggregates: list[Aggregate]) -> Expr:
    """An item of the list over columns #0, #1, ...: the aggregates."""

    def replaced(part: exp.Expr) -> exp.Expr:
        if not is_aggregate(part):
            return part
        aggregate = _aggregate(part)
        if aggregate not in aggregates:
            aggregates.append(aggregate)
        return output_column(f"#{aggregates.index(aggregate)}", type_of(part))

    found = lower(node.copy().transform(replaced, copy=False))
    if calls_user(found):
        raise NotCovered("users' functions run in workers")
    return found


def _aggregate(call: exp.Expr) -> Aggregate:
    function = PLAIN.get(type(call))
    if function is None or any(value for key, value in call.args.items() if key not in ("this", "big_int")):
        raise NotCovered("another aggregate")
    if isinstance(call.this, exp.Star):
        return Aggregate(function, EVERY_ROW, BIGINT)
    argument = lower(call.this)
    covered = (*_NUMBERS, "TIMESTAMP") if function in ("min", "max") else _NUMBERS
    if function != "count" and argument.type.kind not in covered:
        raise NotCovered(f"{function} of {argument.type}")
    if calls_user(argument) or (function == "avg" and type_of(call.this) == DURATION):
        raise NotCovered("users' functions run in workers, and a mean of durations is rounded by Spark")
    return Aggregate(function, argument, external(type_of(call)))
