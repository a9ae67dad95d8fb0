"""Update an answer with RESAMPLE to a later cycle: only new rows, and rows near new readings, are sampled again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.expr.windows import FOREVER
from penstock.operators.base.log_reader import TimedPositions
from penstock.operators.resample.samples import ResampledRows, SampleReaders, asked_of_times, values_at
from penstock.operators.resample.stream import Room, StreamWindow, TimedRows, read_rows
from penstock.sql.plan import Resampling


def goes_on(plan: Resampling, before: ResampledRows, times: StreamWindow, values: StreamWindow) -> bool:
    """Whether a value stays what it was unless a new reading comes near it."""
    was = before.times
    moved_on = all(now >= then for now, then in zip(times.span, was.span, strict=True))
    same_floors = (times.floor, values.floor) == (was.floor, before.resampled.floor)
    grown = times.head >= was.head and values.head >= before.resampled.head
    return moved_on and same_floors and grown and _covers(plan, before) and _covers_now(plan, times, values)


def _covers(plan: Resampling, before: ResampledRows) -> bool:
    return _covers_now(plan, before.times, before.resampled)


def _covers_now(plan: Resampling, times: StreamWindow, values: StreamWindow) -> bool:
    """Whether the window of the values cuts off nothing that is near a time inside; only BEGIN .. END .. FOR it can do so."""
    (low, high), (first, last) = times.span, values.span
    return (first <= low - plan.back_us or first <= -FOREVER) and (last >= high + plan.ahead_us or last >= FOREVER)


def move_on(
    plan: Resampling,
    before: ResampledRows,
    times: StreamWindow,
    values: StreamWindow,
    readers: SampleReaders,
    room: Room,
) -> ResampledRows:
    """The same as reading everything, where it `goes_on`."""
    was, (low, high) = before.times, times.span
    asked, inside = asked_of_times(plan), before.rows.found.times >= low
    room.take(int(inside.sum()))
    new = replace(times, floor=max(times.floor, was.head))
    came = [read_rows(new, readers.times, (low, high), plan.times_predicate, asked, room)]
    if high > was.span[1]:  # END has reached readings that were there
        older = replace(times, head=was.head)
        came.append(read_rows(older, readers.times, (was.span[1] + 1, high), plan.times_predicate, asked, room))
    news = replace(values, floor=max(values.floor, before.resampled.head))
    touched = _near(plan, before.rows.found.times, news.times(readers.values, -FOREVER, FOREVER))
    stays, again = np.flatnonzero(inside & ~touched), np.flatnonzero(inside & touched)
    todo = TimedRows.together([before.rows.take(again), *came])
    found = values_at(plan, todo, values, readers.values)
    rows = TimedRows.together([before.rows.take(stays), todo])
    order = np.argsort(rows.found.positions, kind="stable")
    index, kept = pa.array(order), pa.array(stays)
    columns = {
        name: pa.concat_arrays([column.take(kept), found[name]]).take(index) for name, column in before.values.items()
    }
    return ResampledRows(rows.take(order), columns, times, values)


def _near(plan: Resampling, times: np.ndarray, news: TimedPositions) -> np.ndarray:
    """Which times have one of some new readings near enough to count."""
    new = np.append(np.sort(news.times), FOREVER)
    return new[np.searchsorted(new, times - plan.back_us)] <= times + plan.ahead_us
