"""A SELECT that is asked once, as aggregates over one stream: what a rollup can help with, or what Spark cannot say."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.operators.windows import TimeWindow
from penstock.sql.aggregate_planner import aggregate_plan, is_aggregation
from penstock.sql.binding.context import Bound
from penstock.sql.lower import NotCovered
from penstock.sql.nodes import Duration, OwnWindow
from penstock.sql.plan import AggregatePlan
from penstock.sql.planner import bind_query
from penstock.sql.scope import State
from penstock.sql.statements import Select


@dataclass(frozen=True, slots=True)
class Sorting:
    """One item of ORDER BY: which output, and which way."""

    output: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class AskedOnce:
    """The aggregates, and what becomes of their rows."""

    plan: AggregatePlan
    order: tuple[Sorting, ...] = ()
    limit: int | None = None
    offset: int = 0


def asked_of_slices(select: Select, state: State) -> AskedOnce | None:
    """The question, if Spark SQL has no words for it: averages over time, and aggregates with different windows."""
    twa = any(call.name.lower() == "twa" for call in select.query.find_all(exp.Anonymous))
    if not twa and select.query.find(OwnWindow, Duration) is None:
        return None
    asked = asked_once(select, state)
    if asked is None:
        return None
    own = set(asked.plan.own_windows)
    several = len(own) > 1 or bool(own and select.query.args.get("begin_end"))
    return asked if several or any(call.function == "twa" for call in asked.plan.aggregates) else None


def asked_once(select: Select, state: State) -> AskedOnce | None:
    """The question as aggregates over a window of one stream; None where it is something else. The tree stays as it is."""
    if select.as_of is not None:
        return None
    bound = bind_query(select, state, standing=False)
    if not is_aggregation(bound):
        return None
    try:
        order = _order(bound)
        limit, offset = (_count(bound, key) for key in ("limit", "offset"))
        for key in ("order", "limit", "offset"):
            bound.query.set(key, None)
        plan = aggregate_plan(bound)
    except NotCovered:
        return None
    return AskedOnce(plan, order, limit, offset or 0) if isinstance(plan.window, TimeWindow) else None


def _order(bound: Bound) -> tuple[Sorting, ...]:
    clause = bound.query.args.get("order")
    items = clause.expressions if clause is not None else []
    return tuple(
        Sorting(_output(bound, item.this), bool(item.args.get("desc")), bool(item.args.get("nulls_first")))
        for item in items
    )


def _output(bound: Bound, node: exp.Expr) -> int:
    """Which output ORDER BY names, or writes out again."""
    if isinstance(node, exp.Column) and not node.table:
        return [field.name for field in bound.fields].index(node.name)
    for place, item in enumerate(bound.query.expressions):
        if item.this == node:
            return place
    raise NotCovered("ORDER BY something that is not in the SELECT list")


def _count(bound: Bound, key: str) -> int | None:
    clause = bound.query.args.get(key)
    return None if clause is None else int(clause.expression.name)
