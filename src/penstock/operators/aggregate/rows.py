"""From partials to the rows of an answer: finish the aggregates, drop what HAVING refuses, rank, drop what QUALIFY refuses, project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.expr.expression import Column, Expr, Literal, columns_of, substituted, walk
from penstock.operators.aggregate.correlated import by_answers
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.base import Ints, State
from penstock.operators.aggregate.partials.cell_sums import CombinedCells
from penstock.operators.aggregate.partials.sessions import sessions_of
from penstock.operators.aggregate.series import AnswerSpan, Found, LineKey, find_all, with_series
from penstock.operators.aggregate.shape import Measure, measure_of
from penstock.operators.base.table_answer import TableAnswer
from penstock.operators.base.window_functions import window_columns
from penstock.sql.plan import (
    UNNESTED,
    WINDOW_END,
    WINDOW_START,
    AggregatePlan,
    Output,
    aggregate_name,
    key_name,
    scalar_name,
)
from penstock.sql.plan.output import schema_of
from penstock.types import TIMESTAMP


def answer_table(
    plan: AggregatePlan,
    whole: Mapping[Measure, CombinedCells],
    groups: Groups,
    span: AnswerSpan = AnswerSpan(),
    known: Found | None = None,
) -> pa.Table:
    """One row per (pane, group); all measures have the same ones, because they saw the same rows.

    A series leaves out slots that the window cuts. So it may lack groups, which then have an empty one. `known`: see `find_all`.
    """
    plan, whole, groups = by_answers(plan, whole, groups)
    ends: Ints | None = None
    if plan.session_us:
        partials = {measure: measure.make() for measure in whole}
        whole, ends = sessions_of(whole, partials, measure_of(plan.aggregates[-1]), plan.session_us)
    if plan.has_series or plan.by:
        lines, groups = with_series(plan, whole, groups, span)
    else:
        lines = {LineKey.of(call): whole[measure_of(call)] for call in plan.aggregates}
    one = next(iter(lines.values()))
    # Whatever was seen first, an answer looks the same.
    order = groups.in_order(one.windows, one.groups)
    if plan.panes is not None:
        ends = (one.windows + plan.panes.width if ends is None else ends)[order]
    windows, states = one.windows[order], {key: _taken(own.state, order) for key, own in lines.items()}
    count, columns = len(order), {}
    if not plan.keys and plan.panes is None:
        count = 1  # an aggregate without groups answers also where there are no rows
    for place, key in enumerate(groups.columns(one.groups[order])):
        columns[key_name(place)] = key
    if ends is not None:
        columns[WINDOW_START] = _times(windows)
        columns[WINDOW_END] = _times(ends)
    for place, aggregate in enumerate(plan.aggregates):
        partial, state = measure_of(aggregate).make(), states[LineKey.of(aggregate)]
        state = state if len(order) else partial.empty(count)
        parameter: Any = aggregate.parameter
        if aggregate.options:
            columns[aggregate_name(place)] = find_all(aggregate, state, count, span.most_elements, known)
            continue
        if aggregate.function == "twa":
            parameter = np.minimum(span.until_us if ends is None else ends, span.until_us)
        finished = partial.finish(aggregate.function, state, aggregate.type, parameter)
        columns[aggregate_name(place)] = finished
    return projected(plan, columns, count)


def projected(plan: AggregatePlan, columns: dict[str, pa.Array], count: int) -> pa.Table:
    """The answer of keys, edges of panes and finished aggregates, and behind it what only its order needs."""
    if plan.having is not None:
        columns, count = _those_of(plan.having, columns, count)
    if plan.over:
        columns = columns | window_columns(plan.over, columns, count)
    if plan.qualify is not None:
        columns, count = _those_of(plan.qualify, columns, count)
    outputs = (*plan.outputs, *(plan.sorted.hidden if plan.sorted is not None else ()))
    if plan.unnest is not None:
        # Not the arrays themselves: a copy for each of their elements would be very many.
        needed = {name for output in outputs for name in columns_of(output.expr)}
        kept = {name: column for name, column in columns.items() if name in needed}
        columns, count = _unnested(evaluate(plan.unnest, columns, count), kept)
    arrays = [evaluate(output.expr, columns, count) for output in outputs]
    return pa.Table.from_arrays(arrays, schema=schema_of(outputs))


def _those_of(condition: Expr, columns: dict[str, pa.Array], count: int) -> tuple[dict[str, pa.Array], int]:
    """The rows that satisfy a condition."""
    kept = pa.array(np.flatnonzero(evaluate_mask(condition, columns, count)))
    return {name: column.take(kept) for name, column in columns.items()}, len(kept)


def _unnested(arrays: pa.Array, columns: dict[str, pa.Array]) -> tuple[dict[str, pa.Array], int]:
    """The columns once for each element of their row's array, with the elements beside them."""
    elements, rows = arrays.flatten(), pc.list_parent_indices(arrays)
    return {**{name: column.take(rows) for name, column in columns.items()}, UNNESTED: elements}, len(elements)


def _taken(state: State, places: Ints) -> State:
    return {name: column[places] for name, column in state.items()}


def _times(micros: np.ndarray) -> pa.Array:
    return pa.array(micros).cast(TIMESTAMP.to_arrow())


def with_values(plan: AggregatePlan, subqueries: Sequence[TableAnswer]) -> AggregatePlan:
    """The plan with each subquery's value in place of its name. Not to be called under the lock: it may read the log."""
    if not subqueries or plan.landmarks:
        return plan
    values = {
        scalar_name(place): Literal(_value(held.answer()), scalar.plan.outputs[0].type)
        for place, (scalar, held) in enumerate(zip(plan.scalars, subqueries, strict=True))
    }
    having = None if plan.having is None else _known(plan.having, values)
    order = None if plan.sorted is None else replace(plan.sorted, hidden=_all_known(plan.sorted.hidden, values))
    qualify = None if plan.qualify is None else _known(plan.qualify, values)
    return replace(plan, outputs=_all_known(plan.outputs, values), having=having, qualify=qualify, sorted=order)


def _value(answer: pa.Table) -> Any:
    """The one value of an answer of one column; NULL where HAVING left no row."""
    return answer.column(0)[0].as_py() if answer.num_rows else None


def _all_known(outputs: Sequence[Output], values: dict[str, Literal]) -> tuple[Output, ...]:
    return tuple(replace(output, expr=_known(output.expr, values)) for output in outputs)


def _known(expr: Expr, values: dict[str, Literal]) -> Expr:
    columns: dict[str, Expr] = {node.name: node for node in walk(expr) if isinstance(node, Column)}
    return substituted(expr, {**columns, **values})
