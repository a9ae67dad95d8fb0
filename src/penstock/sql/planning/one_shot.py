"""A SELECT that is asked once, as aggregates over one stream: what a rollup can help with, or what Spark cannot say."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.expr.windows import TimeWindow
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.nodes import Duration, OwnWindow
from penstock.sql.plan import AggregatePlan
from penstock.sql.planning.aggregate.planner import aggregate_plan, is_aggregation
from penstock.sql.planning.planner import bind_query
from penstock.sql.planning.row_order import group_distinct
from penstock.sql.scope import SqlCatalog
from penstock.sql.statements import Select


@dataclass(frozen=True, slots=True)
class OneShotAggregate:
    """The aggregates, over a window of time."""

    plan: AggregatePlan


def asked_of_slices(select: Select, state: SqlCatalog) -> OneShotAggregate | None:
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


def asked_once(select: Select, state: SqlCatalog) -> OneShotAggregate | None:
    """The question as aggregates over a window of one stream; None where it is something else. The tree stays as it is."""
    if select.as_of is not None:
        return None
    bound = bind_query(select, state, standing=False)
    group_distinct(bound)
    if not is_aggregation(bound):
        return None
    try:
        plan = aggregate_plan(bound)
    except NotCovered:
        return None
    return OneShotAggregate(plan) if isinstance(plan.window, TimeWindow) else None
