"""The samples of a long window, made by Spark's workers: each task has the readings of a part of the window's time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.operators.base.log_reader import TASK_ROWS, LogSource
from penstock.operators.base.row_budget import BudgetExceeded
from penstock.operators.resample.samples import ResampledRows, SampleReaders, sample
from penstock.operators.resample.stream import Room, StreamWindow, TimedRows
from penstock.sql.plan import Resampling

_Samples = tuple[TimedRows, dict[str, pa.Array]]


@dataclass(frozen=True, slots=True)
class _StreamRows:
    """One of the two streams as a worker opens it: a `StreamWindow` without its readers."""

    source: LogSource
    floor: int
    head: int
    span: tuple[int, int]
    passing: np.ndarray | None

    def open(self) -> StreamWindow:
        return StreamWindow(self.source.open, self.source.open, self.floor, self.head, self.span, self.passing)


@dataclass(frozen=True, slots=True)
class _SampleTask:
    """The samples at the readings of a part of the window; None where they are more than `most`."""

    plan: Resampling
    times: _StreamRows
    values: _StreamRows
    most: int

    def __call__(self) -> _Samples | None:
        times, values = self.times.open(), self.values.open()
        readers = SampleReaders(times.reader(), values.reader())
        try:
            found = sample(self.plan, times, values, readers, Room(self.most))
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
    reached = _StreamRows(readers.values.source, values.floor, values.head, values.span, values.passing)
    own = _StreamRows(readers.times.source, times.floor, times.head, times.span, times.passing)
    parts = readers.times.run(
        [_SampleTask(plan, replace(own, span=span), reached, most) for span in _spans(times, values)]
    )
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
