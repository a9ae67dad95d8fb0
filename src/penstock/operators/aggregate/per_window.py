"""Aggregates with windows of their own: one answer per window, put together by key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.expr.expression import Column
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.rows import projected
from penstock.operators.aggregate.series import find_all
from penstock.operators.aggregate.shape import measure_of
from penstock.sql.plan import AggregatePlan, Output, aggregate_name, key_name


def answer_by_window(plan: AggregatePlan, over: Callable[[int | None, AggregatePlan], pa.Table]) -> pa.Table:
    """One answer from several windows: `over` answers aggregates over the last microseconds of the question's window.

    The answer has the groups with rows in the question's window (None). An aggregate without rows has its value for no rows.
    """
    # Of aggregates by slots the one that leaves out least.
    first = sorted(range(len(plan.aggregates)), key=lambda place: plan.aggregates[place].every_us)[:1]
    groups, count = Groups.by(plan.keys), 0
    columns: dict[str, pa.Array] = {}
    # The question's own window first: it determines the groups.
    for us in (None, *sorted({us for us in plan.own_windows if us is not None})):
        places = [i for i, own in enumerate(plan.own_windows) if own == us]
        table = over(us, _part(plan, places or first))
        names = [key_name(i) for i in range(len(plan.keys))]
        keys = {n: table.column(n).combine_chunks() for n in names}
        numbers = groups.number(list(keys.values()))
        if us is None:
            count, columns = len(numbers), keys
        for place in places:
            columns[aggregate_name(place)] = _spread(plan, table, place, numbers, count)
    return projected(plan, columns, count)


def _part(plan: AggregatePlan, places: list[int]) -> AggregatePlan:
    """Some of the aggregates, beside their keys."""
    outputs = [Output(key_name(i), k.type, Column(key_name(i), k.type)) for i, k in enumerate(plan.keys)]
    for at, place in enumerate(places):
        type_ = plan.aggregates[place].type
        outputs.append(Output(aggregate_name(place), type_, Column(aggregate_name(at), type_)))
    return AggregatePlan(
        plan.table_id,
        plan.keys,
        tuple(plan.aggregates[i] for i in places),
        tuple(outputs),
        plan.window,
        plan.static_predicate,
        plan.stream_predicate,
        by=plan.by,
    )


def _spread(plan: AggregatePlan, table: pa.Table, place: int, numbers: np.ndarray, count: int) -> pa.Array:
    """An aggregate per group of the question; where it has no rows, its value for no rows."""
    call = plan.aggregates[place]
    partial = measure_of(call).make()
    if call.options:
        nothing = find_all(call, partial.empty(1), 1, 0)
    else:
        nothing = partial.finish(call.function, partial.empty(1), call.type, call.parameter or 0)
    values = pa.concat_arrays([table.column(aggregate_name(place)).combine_chunks(), nothing])
    at = np.full(count, len(values) - 1, np.int64)
    known = numbers < count  # a group with rows in no whole slot of the question's window is not part of the answer
    at[numbers[known]] = np.flatnonzero(known)
    return values.take(pa.array(at))
