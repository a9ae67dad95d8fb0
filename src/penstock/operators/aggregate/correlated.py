"""Correlated aggregates with groups: each row is compared with the inner aggregate that applies to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.base import Ints, State
from penstock.operators.aggregate.partials.cell_sums import CombinedCells, merge_combined
from penstock.operators.aggregate.partials.correlated import INNER, PREFIX, Correlated, edges_of
from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.aggregate.shape import Measure, measure_of
from penstock.sql.plan import AggregateCall, AggregatePlan, CorrelatedGroups, aggregate_name
from penstock.types import BIGINT, BOOLEAN

Whole = Mapping[Measure, CombinedCells]


def with_inner(
    plan: AggregatePlan, whole: dict[Measure, CombinedCells], groups: Groups
) -> dict[Measure, CombinedCells]:
    """Every line with the inner aggregate that its rows are compared with."""
    if plan.picking is None:
        return whole
    width = 1 if plan.panes is None or plan.picking.per_window else plan.panes.width
    return {m: _shared(m, combined, _numbers(groups, combined, plan.picking), width) for m, combined in whole.items()}


def _numbers(groups: Groups, lines: CombinedCells, picking: CorrelatedGroups) -> Ints:
    """Lines with the same inner aggregate have the same number."""
    keys = groups.columns(lines.groups)
    panes = [pa.array(lines.windows)] if picking.per_window else []
    return number_groups([*(keys[place] for place in picking.inner), *panes], len(lines.groups))[0]


def _shared(measure: Measure, combined: CombinedCells, numbers: Ints, width: int) -> CombinedCells:
    partial = measure.make()
    assert isinstance(partial, Correlated)
    total: State = partial.empty(int(numbers.max(initial=-1)) + 1)
    # Panes may overlap, but those that begin at multiples of their width have every row once.
    once = combined.windows % width == 0
    partial.merge_inner(total, numbers[once], {name: combined.state[name][once] for name in INNER})
    return replace(combined, state={**combined.state, **{name: total[name][numbers] for name in INNER}})


def by_answers(plan: AggregatePlan, whole: Whole, groups: Groups) -> tuple[AggregatePlan, Whole, Groups]:
    """Lines of the answer instead of lines of inner aggregates, and no group of which no row was picked."""
    picking = plan.picking
    if picking is None:
        return plan, whole, groups
    some: Expr = Call("gt", (Column(aggregate_name(picking.rows), BIGINT), Literal(0, BIGINT)), BOOLEAN)
    having = some if plan.having is None else Call("and", (some, plan.having), BOOLEAN)
    if picking.outer or plan.panes is not None:
        plan = replace(plan, having=having)
    if picking.outer == len(plan.keys):
        return plan, whole, groups
    answers = Groups.by(plan.keys[: picking.outer])
    picked = {m: _regrouped(plan, m, combined, groups, answers) for m, combined in whole.items()}
    calls = tuple(_of_picked(call) for call in plan.aggregates)
    return replace(plan, keys=plan.keys[: picking.outer], aggregates=calls), picked, answers


def _regrouped(
    plan: AggregatePlan, measure: Measure, combined: CombinedCells, groups: Groups, answers: Groups
) -> CombinedCells:
    assert plan.picking is not None
    partial = measure.make()
    assert isinstance(partial, Correlated)
    # All calls of a plan pick the same rows.
    _, _, inner, *edges = next(c for c in plan.aggregates if measure_of(c) == measure).function.split(" ")
    rows: Any = np.empty(len(combined.groups), object)
    for line in range(len(rows)):
        rows[line] = partial.picked(combined.state, line, inner, edges_of(edges)).tobytes() or None
    own = answers.number(groups.columns(combined.groups)[: plan.picking.outer], len(combined.groups))
    lines = replace(combined, groups=own, state={**combined.state, "pairs": rows})
    return merge_combined([lines], partial)


def _of_picked(call: AggregateCall) -> AggregateCall:
    """The same aggregate of all rows that are left."""
    _, outer, inner, *_ = call.function.split(" ")
    return replace(call, function=f"{PREFIX} {outer} {inner}")
