"""A selection's answer as of a committed cycle."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from penstock.errors import error, expect
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.base.answer import AnswerAt, Ids, all_rows, check_rows
from penstock.operators.base.finality import final_inside, first_begin
from penstock.operators.base.log_reader import LogReader, TimedPositions, read_log
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.delivered_windows import DeliveredWindows
from penstock.operators.select.match_positions import MatchPositions
from penstock.operators.select.window_cut import (
    WindowAt,
    WindowMatches,
    came_in_time,
    came_late,
    may_have_left,
    rows_entered,
    rows_inside,
)
from penstock.sql.plan import SelectPlan

Read = TypeVar("Read")


class Instants(Protocol):
    """The instants of the cycles that are kept now."""

    def are_after(self, cycle: int) -> bool:
        """Whether the cycle after this one is kept no more."""

    def between(self, first: int, last: int) -> list[WindowAt]:
        """The instants of the cycles between two others, as far as they are kept."""


@dataclass(frozen=True, slots=True)
class SelectAt:
    """A select-project query's answer: ids are log positions."""

    operator: ClassVar[str] = "select"
    net_changes: ClassVar[bool] = False
    finishes_later: ClassVar[bool] = False
    floors: ClassVar[tuple[int, ...]] = ()
    note: ClassVar[None] = None

    cycle: int
    query_id: int
    plan: SelectPlan
    matches: WindowMatches
    values: list[pa.Table]
    instant: WindowAt
    reader: Callable[[], LogReader]
    fresh: Callable[[], LogReader]  # a reader with a new list of the log's files
    ready: CurrentRows | None = None  # where the answer is kept current
    stretch: int | None = None  # the cycle since which the window over time stands
    instants: Instants | None = None
    cut_ms: Callable[[float], None] | None = None  # is told the processor time that finding the answer took

    @property
    def stands_for(self) -> int:
        return self.cycle

    @property
    def now_us(self) -> int | None:
        return self.instant.now_us

    def inside(self) -> Ids:
        if self.ready is not None:
            ready = self.ready
            return self._reading(lambda f: ready.inside(self.query_id, self.cycle, self.matches, self.instant, f))
        began = time.thread_time()
        found = self._reading(lambda f: rows_inside(self.matches, self.instant, f).positions)
        if self.cut_ms is not None:
            self.cut_ms((time.thread_time() - began) * 1000)
        return found

    def entered(self, before: AnswerAt) -> Ids:
        return self.entered_rows(expect(SelectAt, before)).positions

    def entered_rows(self, before: SelectAt) -> TimedPositions:
        return self._entered(before)[0]

    def _entered(self, before: SelectAt) -> tuple[TimedPositions, list[WindowAt]]:
        """The rows that entered, and the instants since `before` that decided about them: that of each cycle, if any row came too late."""
        was, now = before.instant, self.instant
        rows = self._reading(lambda f: rows_entered(self.matches, was, now, f))
        one_step = self.cycle == before.cycle + 1 or self.stretch is None or self.stretch != before.stretch
        if one_step or self.instants is None:
            return rows, [was, now]
        if not self.instants.are_after(before.cycle) and not came_late(rows, was, now):
            return rows, [was, now]
        steps = [was, *self.instants.between(before.cycle, self.cycle), now]
        if self.instants.are_after(before.cycle) and self._reading(lambda f: may_have_left(was, steps[1], f)):
            oldest = "a later one, and readings that came meanwhile have left the window"
            raise error("cycle_gone", cycle=before.cycle + 1, oldest=oldest)
        return came_in_time(rows, steps), steps

    def begin(self, delivered: DeliveredWindows) -> None:
        delivered.begin(self.instant)

    def first(self, delivered: DeliveredWindows) -> Ids:
        window, keep_us = self.instant.window, self.plan.keep_us
        if keep_us and isinstance(window, TimeWindow) and window.begin.anchor == "now":
            earlier = replace(window.begin, offset_us=window.begin.offset_us - keep_us)
            whole = replace(self.instant, window=replace(window, begin=earlier))
            delivered.begin(whole)
            found = self._reading(lambda f: rows_inside(self.matches, whole, f).positions)
        else:
            found = self.inside()
        self.begin(delivered)
        return found

    def undelivered(self, before: AnswerAt, delivered: DeliveredWindows) -> Ids:
        """A window that is made wider shows rows again that had left it."""
        if self.plan.lasting is not None:
            return self.entered(before)
        return delivered.without_told(*self._entered(expect(SelectAt, before))).positions

    def select(self, limit: int | None, most: int) -> pa.Table:
        return self.rows(check_rows(self.inside(), limit, most))

    def rows(self, ids: Ids) -> pa.Table:
        return self._reading(lambda f: f.rows(self.plan, ids, self.values))

    def since(self, first: int, end: int, low: int, high: int = FOREVER) -> TimedPositions:
        """Matches in [first, end) from a time on, up to another one, whatever the window."""
        return self._reading(lambda f: self.matches.times(f, end, low, high, first))

    # -- rows that become final: each one at once

    @property
    def final_to_us(self) -> int | None:
        return self.now_us

    def final_rows(self) -> pa.Table:
        return self.rows(self._found_since(None))

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        return self.rows(self._found_since(before))

    def _found_since(self, before: AnswerAt | None) -> Ids:
        """Rows that were logged since an earlier answer, whether or not NOW has reached them: it may wait for another stream."""
        was, window, span = expect(SelectAt, before) if before is not None else None, self.instant.window, None
        if isinstance(window, TimeWindow) and not (window.end.anchor == "now" and window.end.offset_us < 0):
            span = self.instant.range()
        if span is None or not isinstance(window, TimeWindow):
            return self.entered(was) if was is not None else self.inside()
        known = was is not None and was.instant.now_us is not None  # without NOW nothing was told
        first = was.instant.head if was is not None and known else 0
        low = min(span[0], was.instant.range_before()[0]) if was is not None and known else span[0]
        high = span[1] if window.ends else FOREVER
        return self.since(max(first, self.instant.floor), self.instant.head, low, high).positions

    def to_evaluate(self, first: int, end: int, low: int) -> int:
        """How many rows that takes the predicate to be evaluated for."""
        known = self.matches.matches
        return known.to_evaluate(self.reader(), first, end, low) if isinstance(known, MatchPositions) else 0

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        inside = self.inside()
        left = np.setdiff1d(inside_before, inside)
        return inside, np.setdiff1d(inside, inside_before), all_rows(self, left)

    def _reading(self, work: Callable[[LogReader], Read]) -> Read:
        return read_log(work, self.reader, self.fresh)


@dataclass(frozen=True, slots=True)
class LastingAt(SelectAt):
    """The answer where a condition has to last. A late reading may break or mend it, so that rows become final with the watermark."""

    finishes_later: ClassVar[bool] = True

    watermark_us: int | None = None
    kept_from_us: int = -FOREVER  # retention may have taken readings before this

    @property
    def final_to_us(self) -> int | None:
        span = self.instant.range() if isinstance(self.instant.window, TimeWindow) else None
        return final_inside(self.instant.window, self.watermark_us, span[1] if span is not None else None)

    def final_rows(self) -> pa.Table:
        span = self.instant.range()
        return self._rows_before_final_to(span[0] if span is not None else FOREVER)

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        was = expect(LastingAt, before).final_to_us
        first = first_begin(self.instant.window, self.instant.start_us)
        return self._rows_before_final_to(max(first, was if was is not None else -FOREVER))

    def _rows_before_final_to(self, low: int) -> pa.Table:
        final_to_us, span = self.final_to_us, self.instant.range()
        if final_to_us is None or span is None:
            return self.rows(np.empty(0, np.int64))
        window = expect(TimeWindow, self.instant.window)
        lasting_us = self.plan.lasting.us if self.plan.lasting is not None else 0
        low = max(low, self.kept_from_us + lasting_us, span[0] if not window.slides else -FOREVER)
        high = min(final_to_us - 1, span[1] if window.ends else FOREVER)
        return self.rows(self.since(self.instant.floor, self.instant.head, low, high).positions)
