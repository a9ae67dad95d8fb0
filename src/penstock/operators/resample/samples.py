"""The samples of an answer with RESAMPLE: readings of one stream, and the other stream's values at their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER
from penstock.operators.base.log_reader import TASK_ROWS, LogReader, TimedPositions
from penstock.operators.base.row_budget import BudgetExceeded
from penstock.operators.base.row_order import sorted_rows
from penstock.operators.resample import stream
from penstock.operators.resample.nearest import Resampler, key_codes
from penstock.operators.resample.stream import Room, StreamWindow, TimedRows, read_rows, rows_at
from penstock.sql.plan import Resampling, resample_name
from penstock.sql.plan.output import schema_of

_PLACE = "_place"


@dataclass(frozen=True, slots=True)
class SampleReaders:
    """Readers of the log of the stream that gives the times, and of the one that gives the values."""

    times: LogReader
    values: LogReader


@dataclass(frozen=True, slots=True)
class ResampledRows:
    """Readings of the stream that gives the times, in log order, with the values of all calls by name, as of one cycle."""

    rows: TimedRows
    values: dict[str, pa.Array]
    times: StreamWindow
    resampled: StreamWindow

    @property
    def nbytes(self) -> int:
        arrays = [*self.rows.columns.values(), *self.values.values()]
        return int(self.rows.found.nbytes + sum(array.nbytes for array in arrays))


@dataclass(frozen=True, slots=True)
class SampleAnswer:
    """An answer, and the log positions of the readings that gave its rows their times."""

    table: pa.Table
    positions: np.ndarray


def check_size(plan: Resampling, times: StreamWindow, most: int | None) -> None:
    """Refuse an answer with too many rows before anything is read, by the row counts in file names."""
    if plan.times_predicate is None and times.passing is None:
        room_for(plan, most).take(times.rows_at_least())


def room_for(plan: Resampling, most: int | None) -> Room:
    """The limit of readings for an answer of `most` rows; none with HAVING, LIMIT or OFFSET, which may leave any number out."""
    cut = plan.sorted is not None and (plan.sorted.limit is not None or plan.sorted.offset > 0)
    return Room(None if cut or plan.having is not None else most)


def sample(
    plan: Resampling, times: StreamWindow, values: StreamWindow, readers: SampleReaders, room: Room
) -> ResampledRows:
    """Everything inside the window."""
    rows = read_rows(times, readers.times, (-FOREVER, FOREVER), plan.times_predicate, asked_of_times(plan), room)
    return ResampledRows(rows, values_at(plan, rows, values, readers.values), times, values)


def asked_of_times(plan: Resampling) -> list[Expr]:
    shown = [o.expr for o in plan.outputs] + ([] if plan.having is None else [plan.having])
    return [*shown, *(ours for ours, _ in plan.keys)]


def values_at(plan: Resampling, rows: TimedRows, values: StreamWindow, of_values: LogReader) -> dict[str, pa.Array]:
    """The values of all calls at the times of some readings, by name, from as much of the other stream as they reach."""
    times = rows.found.times
    low, high = (int(times.min()), int(times.max())) if rows.count else (FOREVER, -FOREVER)
    near = values.times(of_values, low - plan.back_us, high + plan.ahead_us)
    pieces = pieces_in_time(times, near.times, plan.back_us, plan.ahead_us, stream.PIECE_ROWS)
    if len(pieces) <= 1:
        return _values_from(plan, rows, near, of_values)
    found = []
    for piece in pieces:
        first, last = int(times[piece[0]]) - plan.back_us, int(times[piece[-1]]) + plan.ahead_us
        reached = np.flatnonzero((near.times >= first) & (near.times <= last))
        found.append(_values_from(plan, rows.take(piece), near.take(reached), of_values))
    back = pa.array(np.argsort(np.concatenate(pieces), kind="stable"))
    return {name: pa.concat_arrays([part[name] for part in found]).take(back) for name in found[0]}


def pieces_in_time(times: np.ndarray, near: np.ndarray, back_us: int, ahead_us: int, most: int) -> list[np.ndarray]:
    """Readings in order of time, in pieces that each have at most so many of the others near them.

    A piece is no shorter than what one reading reaches, so that pieces overlap in no more than they have of their own.
    """
    order, ordered = np.argsort(times, kind="stable"), np.sort(near)
    if len(near) <= most or not len(times):
        return [order]
    at, pieces, start = times[order], [], 0
    reached = np.searchsorted(ordered, at + ahead_us, side="right")
    while start < len(at):
        begins = int(np.searchsorted(ordered, at[start] - back_us))
        end = max(
            int(np.searchsorted(reached, begins + most, side="right")),
            int(np.searchsorted(at, at[start] + back_us + ahead_us, side="right")),
        )
        pieces.append(order[start:end])
        start = end
    return pieces


def _values_from(plan: Resampling, rows: TimedRows, near: TimedPositions, of_values: LogReader) -> dict[str, pa.Array]:
    """The same from these readings of the other stream, of which its conditions may leave some out."""
    given = [call.value for call in plan.calls] + [theirs for _, theirs in plan.keys]
    others = rows_at(of_values, near, given if plan.values_predicate is None else [*given, plan.values_predicate])
    if plan.values_predicate is not None:
        others = others.take(np.flatnonzero(evaluate_mask(plan.values_predicate, others.columns, others.count)))
    codes: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    if plan.keys:
        codes = key_codes(
            [evaluate(ours, rows.columns, rows.count) for ours, _ in plan.keys],
            [evaluate(theirs, others.columns, others.count) for _, theirs in plan.keys],
        )
    resampler = Resampler(others.found.times, rows.found.times, codes[1], codes[0])
    columns = {call.value: evaluate(call.value, others.columns, others.count) for call in plan.calls}
    return {
        resample_name(place): resampler.values(columns[call.value], call.us, call.method).cast(call.type.to_arrow())
        for place, call in enumerate(plan.calls)
    }


def answer_of(plan: Resampling, sampled: ResampledRows) -> SampleAnswer:
    """The rows of the answer, in log order unless they are sorted."""
    columns, kept = sampled.rows.columns | sampled.values, np.arange(sampled.rows.count)
    if plan.having is not None:
        kept = np.flatnonzero(evaluate_mask(plan.having, columns, len(kept)))
        columns = {name: column.take(pa.array(kept)) for name, column in columns.items()}
    arrays = [evaluate(o.expr, columns, len(kept)) for o in plan.outputs]
    table = pa.Table.from_arrays(arrays, schema=schema_of(plan.outputs))
    positions = sampled.rows.found.positions[kept]
    if plan.sorted is None:
        return SampleAnswer(table, positions)
    placed = sorted_rows(table.append_column(_PLACE, pa.array(positions)), plan.sorted)
    return SampleAnswer(placed.select(range(len(plan.outputs))), placed.column(len(plan.outputs)).to_numpy())


_Samples = tuple[TimedRows, dict[str, pa.Array]]


def _sample_part(plan: Resampling, times: StreamWindow, values: StreamWindow, most: int) -> _Samples | None:
    """The samples at the readings of a part of the window, in a worker; None where they are more than `most`."""
    try:
        found = sample(plan, times, values, SampleReaders(times.reader(), values.reader()), Room(most))
    except PenstockError as failure:
        if failure.condition != "over_budget":
            raise
        return None
    return found.rows, found.values


def is_long(times: StreamWindow, values: StreamWindow) -> bool:
    """Whether an answer may not read both windows in the server: of each row the time and then the values."""
    return not times.reader().affords(2 * (times.rows_at_most() + values.rows_at_most()))


def sample_by_tasks(
    plan: Resampling, times: StreamWindow, values: StreamWindow, readers: SampleReaders, room: Room
) -> ResampledRows:
    """Everything inside the window, as `sample` gives it."""
    most = readers.times.most_own if room.most is None else min(room.most, readers.times.most_own)
    own, reached = times.for_workers(readers.times.source), values.for_workers(readers.values.source)
    spans = _spans(times, values)
    parts = readers.times.run([partial(_sample_part, plan, replace(own, span=s), reached, most) for s in spans])
    known: list[_Samples] = [part for part in parts if part is not None]
    count = sum(rows.count for rows, _ in known)
    if len(known) < len(parts) or count > most:
        room.take(most + 1)
        raise BudgetExceeded(
            f"more than {most:,} readings give the times, before HAVING or LIMIT leaves some out",
            "make the window shorter, or raise result_max_rows",
        )
    rows = TimedRows.together([rows for rows, _ in known])
    order = np.argsort(rows.found.positions, kind="stable")
    index = pa.array(order)
    found = {name: pa.concat_arrays([values[name] for _, values in known]).take(index) for name in known[0][1]}
    return ResampledRows(rows.take(order), found, times, values)


def _spans(times: StreamWindow, values: StreamWindow) -> Iterator[tuple[int, int]]:
    """Parts of the window's time with about so many rows of both logs as a task should have."""
    low, high = times.span
    files = [
        (segment.min_ts, segment.end - segment.first)
        for stream in (times, values)
        for segment in stream.reader().segments()
        if segment.max_ts >= low and segment.min_ts <= high
    ]
    since, rows = low, 0
    for begins, count in sorted(files):
        if rows >= TASK_ROWS and begins > since:
            yield since, begins - 1
            since, rows = begins, 0
        rows += count
    yield since, high
