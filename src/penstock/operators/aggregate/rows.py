"""From partials to the rows of an answer: finish the aggregates, drop what HAVING refuses, project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.operators.aggregate.correlated import by_answers
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.cell_sums import CombinedCells
from penstock.operators.aggregate.shape import Measure, measure_of
from penstock.sql.plan import WINDOW_END, WINDOW_START, AggregatePlan, aggregate_name, key_name
from penstock.types import TIMESTAMP


def answer_table(
    plan: AggregatePlan, whole: Mapping[Measure, CombinedCells], groups: Groups, until_us: int = 0
) -> pa.Table:
    """One row per (pane, group); all measures have the same ones, because they saw the same rows.

    `until_us`: where the window ends, for values that stand until then.
    """
    plan, whole, groups = by_answers(plan, whole, groups)
    one = next(iter(whole.values()))
    count, columns = len(one.groups), {}
    if not plan.keys and plan.panes is None:
        count = 1  # an aggregate without groups answers also where there are no rows
    for place, key in enumerate(groups.columns(one.groups, [k.type for k in plan.keys])):
        columns[key_name(place)] = key
    if plan.panes is not None:
        columns[WINDOW_START] = _times(one.windows)
        columns[WINDOW_END] = _times(one.windows + plan.panes.width)
    for place, aggregate in enumerate(plan.aggregates):
        measure = measure_of(aggregate)
        partial, state = measure.make(), whole[measure].state
        state = state if len(one.groups) else partial.empty(count)
        parameter: Any = aggregate.parameter
        if aggregate.function == "twa":
            ends = one.windows + plan.panes.width if plan.panes is not None else until_us
            parameter = np.minimum(ends, until_us)
        finished = partial.finish(aggregate.function, state, aggregate.type, parameter)
        columns[aggregate_name(place)] = finished
    return projected(plan, columns, count)


def projected(plan: AggregatePlan, columns: dict[str, pa.Array], count: int) -> pa.Table:
    """The answer of keys, edges of panes and finished aggregates, and behind it what only its order needs."""
    columns = _in_order(plan, columns)
    if plan.having is not None:
        kept = pa.array(np.flatnonzero(evaluate_mask(plan.having, columns, count)))
        columns, count = {name: column.take(kept) for name, column in columns.items()}, len(kept)
    outputs = (*plan.outputs, *(plan.sorted.hidden if plan.sorted is not None else ()))
    arrays = [evaluate(output.expr, columns, count) for output in outputs]
    schema = pa.schema([pa.field(o.name, o.type.to_arrow()) for o in outputs])
    return pa.Table.from_arrays(arrays, schema=schema)


def _in_order(plan: AggregatePlan, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Rows by window and key, so that an answer looks the same whatever was seen first; NULL comes last."""
    names = [WINDOW_START] if plan.panes is not None else []
    names += [key_name(place) for place, key in enumerate(plan.keys) if key.type.kind not in ("ARRAY", "STRUCT")]
    if not plan.keys:
        return columns  # the windows are in order
    order = pc.sort_indices(pa.table([columns[n] for n in names], names), [(n, "ascending") for n in names])
    return {name: column.take(order) for name, column in columns.items()}


def _times(micros: np.ndarray) -> pa.Array:
    return pa.array(micros).cast(TIMESTAMP.to_arrow())
