"""Aggregates over the rows of a window join -> JoinAggregatePlan, or NotCovered with the reason why they stay Spark SQL."""

from __future__ import annotations

from sqlglot import exp

from penstock.operators.expr import calls_user
from penstock.operators.windows import EVERYTHING
from penstock.sql.aggregate_planner import Taken, expressions_of, refuse_around_aggregates
from penstock.sql.binding.context import Bound
from penstock.sql.lower import NotCovered
from penstock.sql.plan import AggregateCall, AggregatePlan, JoinAggregatePlan, JoinPlan, Output
from penstock.types import BIGINT

# What depends on an order of rows, which the results of a join do not have, or on time between them.
_OF_READINGS = frozenset({"first", "last", "twa"})


def aggregates_over_join(bound: Bound, join: JoinPlan) -> JoinAggregatePlan:
    """What stands on a join as slices of its results. To be called once its rows stand in FROM (`cores.take_core`)."""
    query, contexts = bound.query, bound.collected.contexts
    if not isinstance(query, exp.Select) or len(contexts) != 1 or [s.kind for s in contexts[0].sources] != ["core"]:
        raise NotCovered("aggregates of more than the join's own rows run as Spark SQL")
    if query.args.get("where") is not None:
        raise NotCovered("a condition that the join cannot decide runs as Spark SQL")
    if join.missing != "inner":
        raise NotCovered("aggregates over rows without a partner run as Spark SQL")
    if contexts[0].windows.by_alias:
        raise NotCovered("aggregates over streams with windows of their own run as Spark SQL")
    refuse_around_aggregates(query)
    taken = Taken(query, contexts[0].scope.panes)
    outputs = tuple(
        Output(field.name, field.type, taken.lower(item.this))
        for field, item in zip(bound.fields, query.expressions, strict=True)
    )
    having = query.args.get("having")
    condition = taken.lower(having.this) if having is not None else None
    if any(taken.own_windows):
        raise NotCovered("an aggregate with a window of its own over a join runs as Spark SQL")
    for call in taken.aggregates:
        if call.function in _OF_READINGS or isinstance(call.parameter, tuple):
            raise NotCovered(f"{call.function.upper()} over a join runs as Spark SQL")
    top = AggregatePlan(
        table_id=0,
        keys=taken.lowered_keys(),
        aggregates=tuple(taken.aggregates) or (AggregateCall("count", (), BIGINT),),
        outputs=outputs,
        window=EVERYTHING,
        having=condition,
        panes=taken.panes,
    )
    if any(calls_user(e) for e in expressions_of(top)):
        raise NotCovered("aggregates with user functions run as Spark SQL")
    return JoinAggregatePlan(join, top)
