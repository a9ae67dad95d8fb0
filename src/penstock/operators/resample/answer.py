"""The answer of a question with RESAMPLE as of a committed cycle."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import expect
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.base.answer import AnswerAt, Ids
from penstock.operators.base.finality import final_inside
from penstock.operators.base.log_reader import TimedPositions, read_log
from penstock.operators.base.row_difference import row_difference
from penstock.operators.base.table_answer import TableAnswer
from penstock.operators.resample.sample_cache import CachedSamples, SampleCache
from penstock.operators.resample.samples import (
    ResampledRows,
    SampleAnswer,
    SampleReaders,
    answer_of,
    asked_of_times,
    check_size,
    is_long,
    room_for,
    sample,
    sample_by_tasks,
    values_at,
)
from penstock.operators.resample.stream import Room, StreamWindow, TimedRows, read_rows
from penstock.sql.plan import ResamplePlan, Resampling


def goes_on(plan: Resampling, before: ResampledRows, times: StreamWindow, values: StreamWindow) -> bool:
    """Whether a value stays what it was unless a new reading comes near it."""
    was = before.times
    moved_on = all(now >= then for now, then in zip(times.span, was.span, strict=True))
    same_floors = (times.floor, values.floor) == (was.floor, before.resampled.floor)
    grown = times.head >= was.head and values.head >= before.resampled.head
    covers = _covers(plan, was, before.resampled) and _covers(plan, times, values)
    return moved_on and same_floors and grown and covers


def _covers(plan: Resampling, times: StreamWindow, values: StreamWindow) -> bool:
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


@dataclass(slots=True, eq=False)
class ResampleAt(TableAnswer):
    """An answer with RESAMPLE at a cycle, computed at the first request. The logs up to the cycle's heads do not change."""

    operator: ClassVar[str] = "resample"
    finishes_later: ClassVar[bool] = True
    cycle: int
    query_id: int
    now_us: int | None
    plan: ResamplePlan
    times: StreamWindow
    values: StreamWindow
    kept: SampleCache | None  # None: the same question will not be asked again
    most: int | None  # rows that the answer may have; None: the caller takes only the first rows
    watermark_us: int | None = field(default=None, kw_only=True)  # of the values
    kept_from_us: int = field(default=-FOREVER, kw_only=True)  # retention may have taken readings before this
    _known: CachedSamples | None = field(default=None)

    @property
    def final_to_us(self) -> int | None:
        if self.watermark_us is None:
            return None
        return final_inside(self._window, self.watermark_us - self.plan.resample.ahead_us, self.times.span[1])

    def final_rows(self) -> pa.Table:
        until = self.final_to_us
        return self._rows_between(self.times.span[0], until if until is not None else -FOREVER)

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        """A late reading of the stream that gives the times may come when its value is final already."""
        was, until = expect(ResampleAt, before), self.final_to_us
        if until is None:
            return self.answer().slice(0, 0)
        low, high = was.times.span
        since = was.final_to_us if low <= high else None  # without NOW nothing was told
        low = low if low <= high else self.times.span[0]
        passed = self._rows_between(since if since is not None else low, until)
        if since is None or was.times.head == self.times.head:
            return passed
        return pa.concat_tables([passed, self._rows_between(low, min(since, until), was.times.head)])

    @property
    def _window(self) -> TimeWindow:
        return expect(TimeWindow, self.plan.relations[self.plan.resample.times].window)

    def _rows_between(self, low: int, end: int, first: int = 0) -> pa.Table:
        """The rows with a time in [low, end) and a log position from `first` on, also outside the window."""
        asked, slides = self.plan.resample, self._window.slides
        low = max(low, self.kept_from_us + asked.back_us, -FOREVER if slides else self.times.span[0])
        high = min(end - 1, self.times.span[1] if self._window.ends else FOREVER)
        times = replace(self.times, floor=max(self.times.floor, first), span=(low, high))
        values = replace(self.values, span=(low - asked.back_us, high + asked.ahead_us))
        return replace(self, times=times, values=values, kept=None, _known=None).answer()

    @property
    def floors(self) -> tuple[int, ...]:
        return (self.times.floor, self.values.floor)

    def answer(self) -> pa.Table:
        return self.found().table

    def select(self, limit: int | None, most: int) -> pa.Table:
        if limit is not None:
            self.most = None
        return TableAnswer.select(self, limit, most)

    def found(self, before: ResampleAt | None = None) -> SampleAnswer:
        """The samples of this cycle. `before`: an earlier answer of the caller, from which this one can be updated."""
        if self._known is None:
            self._known = self._find(before._known if before is not None else None)
        return self._known.found

    def _find(self, held: CachedSamples | None) -> CachedSamples:
        asked = self.plan.resample
        before = self._nearest(held)
        if before is not None and before.cycle == self.cycle:
            Room(self.most).take(
                before.found.table.num_rows
            )  # it may be cached for a caller that took only the first rows
            return before

        def work(readers: SampleReaders) -> ResampledRows:
            room = room_for(asked, self.most)
            if before is None:
                make = sample_by_tasks if is_long(self.times, self.values) else sample
                return make(asked, self.times, self.values, readers, room)
            return move_on(asked, before.sampled, self.times, self.values, readers, room)

        if before is None:
            check_size(asked, self.times, self.most)
        sampled = read_log(
            work,
            lambda: SampleReaders(self.times.reader(), self.values.reader()),
            lambda: SampleReaders(self.times.fresh(), self.values.fresh()),
        )
        found = CachedSamples(self.plan, self.cycle, sampled, answer_of(asked, sampled))
        Room(self.most).take(found.found.table.num_rows)
        if self.kept is not None:
            self.kept.keep(self.query_id, found)
        return found

    def _nearest(self, held: CachedSamples | None) -> CachedSamples | None:
        """The newest answer up to this cycle that can be updated to it: a cached one, or the one that the caller holds."""
        asked = self.plan.resample
        known = self.kept.before(self.query_id, self.plan, self.cycle) if self.kept is not None else None
        if held is not None and held.plan == self.plan and (-1 if known is None else known.cycle) < held.cycle:
            known = held
        return known if known is not None and goes_on(asked, known.sampled, self.times, self.values) else None

    def entered(self, before: AnswerAt) -> Ids:
        """Rows with a new value."""
        was = expect(ResampleAt, before)
        return _new_rows(self.found(was), was.found())

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        was = expect(ResampleAt, before)
        left = was.answer().take(pa.array(_new_rows(was.found(), self.found(was))))
        return self.inside(), self.entered(before), left


def _new_rows(rows: SampleAnswer, others: SampleAnswer) -> Ids:
    """Which rows are not among the others, as often as they are there.

    Most readings are in both answers with the same values, and only the rest is compared one by one.
    """
    _, ours, theirs = np.intersect1d(rows.positions, others.positions, assume_unique=True, return_indices=True)
    same = np.ones(len(ours), np.bool_)
    if rows.table.schema != others.table.schema:
        same[:] = False
    for name in rows.table.column_names if len(ours) else ():
        same &= _equal(rows.table.column(name).take(pa.array(ours)), others.table.column(name).take(pa.array(theirs)))
    mine, rest = np.ones(rows.table.num_rows, np.bool_), np.ones(others.table.num_rows, np.bool_)
    mine[ours[same]] = False
    rest[theirs[same]] = False
    left = np.flatnonzero(mine)
    return left[row_difference(rows.table.take(pa.array(left)), others.table.filter(pa.array(rest)))[0]]


def _equal(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> np.ndarray:
    """Where two columns are certainly equal."""
    if pa.types.is_nested(ours.type):
        return np.zeros(len(ours), np.bool_)
    equal = pc.fill_null(pc.equal(ours, theirs), False)
    return np.asarray(pc.or_(equal, pc.and_(pc.is_null(ours), pc.is_null(theirs))))
