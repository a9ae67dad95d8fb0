"""What an answer with RESAMPLE is made of: readings of one stream, and what the other's value was at their times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import error
from penstock.operators.evaluate import evaluate, evaluate_mask
from penstock.operators.expr import Expr
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
class Sampled:
    """Readings of the stream that gives the times, in log order, with the values of all calls by name, as of both streams' cycle."""

    rows: Rows
    values: dict[str, pa.Array]
    times: Stream
    resampled: Stream

    @property
    def nbytes(self) -> int:
        arrays = [*self.rows.columns.values(), *self.values.values()]
        found = self.rows.found
        own = found.positions.nbytes + found.times.nbytes + found.vids.nbytes
        return int(own + sum(array.nbytes for array in arrays))


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


def sample(plan: ResamplePlan, times: Stream, values: Stream, of_times: Fetcher, of_values: Fetcher) -> Sampled:
    """Everything inside the window."""
    rows = read_rows(times, of_times, -FOREVER, FOREVER, plan.times_predicate, asked_of_times(plan))
    return Sampled(rows, values_at(plan, rows, values, of_values), times, values)


def asked_of_times(plan: ResamplePlan) -> list[Expr]:
    shown = [o.expr for o in plan.outputs] + ([] if plan.having is None else [plan.having])
    return [*shown, *(ours for ours, _ in plan.keys)]


def values_at(plan: ResamplePlan, rows: Rows, values: Stream, of_values: Fetcher) -> dict[str, pa.Array]:
    """The values of all calls at the times of some readings, by name, from as much of the other stream as they reach."""
    low, high = (int(rows.found.times.min()), int(rows.found.times.max())) if rows.count else (FOREVER, -FOREVER)
    given = [call.value for call in plan.calls] + [theirs for _, theirs in plan.keys]
    near = read_rows(values, of_values, low - plan.back_us, high + plan.ahead_us, plan.values_predicate, given)
    codes: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    if plan.keys:
        codes = key_codes(
            [evaluate(ours, rows.columns, rows.count) for ours, _ in plan.keys],
            [evaluate(theirs, near.columns, near.count) for _, theirs in plan.keys],
        )
    resampler = Resampler(near.found.times, rows.found.times, codes[1], codes[0])
    columns = {call.value: evaluate(call.value, near.columns, near.count) for call in plan.calls}
    return {
        resample_name(place): resampler.values(columns[call.value], call.us, call.method).cast(call.type.to_arrow())
        for place, call in enumerate(plan.calls)
    }


def answer_of(plan: ResamplePlan, sampled: Sampled) -> Found:
    """The rows of the answer, in log order unless they are sorted."""
    columns, kept = sampled.rows.columns | sampled.values, np.arange(sampled.rows.count)
    if plan.having is not None:
        kept = np.flatnonzero(evaluate_mask(plan.having, columns, len(kept)))
        columns = {name: column.take(pa.array(kept)) for name, column in columns.items()}
    schema = pa.schema([pa.field(o.name, o.type.to_arrow()) for o in plan.outputs])
    table = pa.Table.from_arrays([evaluate(o.expr, columns, len(kept)) for o in plan.outputs], schema=schema)
    positions = sampled.rows.found.positions[kept]
    if plan.sorted is None:
        return Found(table, positions)
    placed = sorted_rows(table.append_column(_PLACE, pa.array(positions)), plan.sorted)
    return Found(placed.select(range(len(plan.outputs))), placed.column(len(plan.outputs)).to_numpy())
