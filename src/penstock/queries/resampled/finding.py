"""The rows of an answer with RESAMPLE: readings of one stream, and what the other's value was at their times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import error
from penstock.operators.evaluate import evaluate, evaluate_mask
from penstock.operators.resample import Resampler, key_codes
from penstock.operators.windows import FOREVER
from penstock.queries.fetch import Fetcher
from penstock.queries.resampled.stream import Rows, Stream, read_rows
from penstock.queries.slices.sorting import sorted_rows
from penstock.sql.plan import ResamplePlan, resample_name

# What of both logs one answer may have read; more than that is work for Spark, or for a shorter window.
READ_MAX_ROWS = 20_000_000
_PLACE = "_place"


@dataclass(frozen=True, slots=True)
class Found:
    """An answer, and at which log positions the readings stand that gave its rows their times."""

    table: pa.Table
    positions: np.ndarray


def too_many(times: Stream, values: Stream) -> int | None:
    """How many rows an answer would have to read, where that is more than it may."""
    rows = times.rows_at_most() + values.rows_at_most()
    return rows if rows > READ_MAX_ROWS else None


def check_size(times: Stream, values: Stream) -> None:
    rows = too_many(times, values)
    if rows is not None:
        detail = f"the windows of both streams have up to {rows:,} readings, and an answer reads {READ_MAX_ROWS:,}"
        raise error("over_budget", detail=detail, hint="make the window shorter: BEGIN (NOW - 1 HOUR) END (NOW)")


def find(plan: ResamplePlan, times: Stream, values: Stream, of_times: Fetcher, of_values: Fetcher) -> Found:
    """The answer as of the streams' cycle, in log order unless it is sorted."""
    names = {resample_name(place) for place in range(len(plan.calls))}
    shown = [o.expr for o in plan.outputs] + ([] if plan.having is None else [plan.having])
    asked = read_rows(times, of_times, -FOREVER, FOREVER, plan.times_predicate, [*shown, *(k for k, _ in plan.keys)])
    low, high = _reached(asked.found.times, plan.farthest_us)
    given = [call.value for call in plan.calls] + [k for _, k in plan.keys]
    near = read_rows(values, of_values, low, high, plan.values_predicate, given)
    columns = {n: c for n, c in asked.columns.items() if n not in names} | _resampled(plan, asked, near)
    kept = np.arange(asked.count)
    if plan.having is not None:
        kept = np.flatnonzero(evaluate_mask(plan.having, columns, asked.count))
        columns = {name: column.take(pa.array(kept)) for name, column in columns.items()}
    schema = pa.schema([pa.field(o.name, o.type.to_arrow()) for o in plan.outputs])
    arrays = [evaluate(o.expr, columns, len(kept)) for o in plan.outputs]
    table = pa.Table.from_arrays(arrays, schema=schema)
    positions = asked.found.positions[kept]
    if plan.sorted is None:
        return Found(table, positions)
    placed = sorted_rows(table.append_column(_PLACE, pa.array(positions)), plan.sorted)
    return Found(placed.select(range(len(plan.outputs))), placed.column(len(plan.outputs)).to_numpy())


def _reached(times: np.ndarray, far_us: int) -> tuple[int, int]:
    return (int(times.min()) - far_us, int(times.max()) + far_us) if len(times) else (0, -1)


def _resampled(plan: ResamplePlan, asked: Rows, near: Rows) -> dict[str, pa.Array]:
    """The values of all calls, by name."""
    codes: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    if plan.keys:
        codes = key_codes(
            [evaluate(ours, asked.columns, asked.count) for ours, _ in plan.keys],
            [evaluate(theirs, near.columns, near.count) for _, theirs in plan.keys],
        )
    resampler = Resampler(near.found.times, asked.found.times, codes[1], codes[0])
    values = {call.value: evaluate(call.value, near.columns, near.count) for call in plan.calls}
    return {
        resample_name(place): resampler.values(values[call.value], call.us, call.method).cast(call.type.to_arrow())
        for place, call in enumerate(plan.calls)
    }
