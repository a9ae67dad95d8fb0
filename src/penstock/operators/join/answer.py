"""A window join's answer as of a committed cycle: results inside their windows, and rows without a partner.

An id is a result's number, or, for a row of the first input without a partner, -1 minus its log position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.catalog.rows import StaticRows
from penstock.errors import PenstockError, expect
from penstock.expr.windows import FOREVER, Bound, JoinWindows, TimeWindow
from penstock.operators.base.answer import AnswerAt, Ids, all_rows, check_rows, rows_gone
from penstock.operators.base.blocks import Blocks
from penstock.operators.base.finality import final_inside, first_begin
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.log_reader import LogReader, read_log
from penstock.operators.join.projection import ResultProjection, RowsMissing, columns_at
from penstock.operators.join.result_list import ChosenResults, JoinResults
from penstock.operators.join.steps.results import EARLIEST
from penstock.operators.select.delivered_windows import DeliveredWindows
from penstock.sql.plan import JoinPlan
from penstock.sql.plan.output import schema_of
from penstock.streams.log.segments import list_what_is_there, lost_position, missing_file
from penstock.views.query_state import NEVER

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class InputTable:
    """Where one input's readings are: from `floor` on they are kept, below `head` they were committed."""

    table: Table
    static: StaticRows
    floor: int
    head: int


@dataclass(frozen=True, slots=True)
class JoinAt:
    """A join's answer."""

    operator: ClassVar[str] = "join"
    finishes_later: ClassVar[bool] = True
    stretch: ClassVar[None] = None
    net_changes: ClassVar[bool] = False
    floors: ClassVar[tuple[int, ...]] = ()
    note: ClassVar[None] = None

    cycle: int
    query_id: int
    plan: JoinPlan
    inputs: tuple[InputTable, ...]
    results: JoinResults
    count: int
    alone: Blocks  # rows of the first input without a partner; empty for an inner join
    windows: JoinWindows
    now_us: int | None
    start_us: int | None
    log: LogAccess
    tables: tuple[StaticRows, ...] = ()  # of the ordinary tables, as the plan lists them
    watermarks: tuple[int | None, ...] = ()  # per input
    kept_from_us: int = -FOREVER  # retention may have taken readings of some input before this

    @property
    def stands_for(self) -> int:
        return self.cycle

    # -- ids

    def inside(self) -> Ids:
        spans = self._spans()
        if spans is None:
            return np.empty(0, np.int64)
        ids: Ids = np.concatenate([self._alone_inside(), self._results_inside(0, self.count, spans)])
        return ids

    def entered(self, before: AnswerAt) -> Ids:
        before = expect(JoinAt, before)
        spans, was = self._spans(), before._spans()
        if spans is None:
            return np.empty(0, np.int64)
        if before.results.generation != self.results.generation or before.windows != self.windows or was is None:
            inside = self.inside()
            news: Ids = inside[~self._among(inside, before, before.inside())]
            return news
        # What came in this cycle counts even if its window passed within it: alarms must not vanish.
        wide = [(min(a, c), b) for (a, b), (c, _) in zip(spans, was, strict=True)]
        new = self._results_inside(before.count, self.count, wide)
        reached = self._results_inside(0, before.count, wide, after=min(high for _, high in was))
        if not self.windows.uniform:
            reached = np.setdiff1d(reached, before._results_inside(0, before.count, was))
        passed = np.setdiff1d(self._alone_inside(wide[0][0]), before._alone_inside())
        return np.concatenate([passed, np.union1d(reached, new)])

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        before = expect(JoinAt, before)
        inside = self.inside()
        if before.results.generation == self.results.generation:
            left = np.setdiff1d(inside_before, inside)
            return inside, np.setdiff1d(inside, inside_before), all_rows(before, left)
        stayed = before._among(inside_before, self, inside)
        return inside, inside[~self._among(inside, before, inside_before)], all_rows(before, inside_before[~stayed])

    def of_times(self, low: int, high: int) -> Ids:
        """What a reader of the query sees: rows with a time in [low, high], also outside the query's window.

        Only those that it can ever have shown, with no tuple before its window at its START.
        """
        if self.now_us is None:
            return np.empty(0, np.int64)
        begins = self.begins()
        inside = TimeWindow(Bound("constant", max(low, begins[0])), Bound("constant", high))
        alone = replace(self, windows=JoinWindows((inside,) * len(self.inputs)))._alone_inside()
        ids: Ids = np.concatenate(
            [alone, self._results_inside(0, self.count, [(begin, high) for begin in begins], after=low - 1)]
        )
        return ids

    def begins(self) -> tuple[int, ...]:
        """Per input, before which time a reader sees no tuple."""
        start = self.start_us if self.start_us is not None else NEVER
        return tuple(w.resolve(start, start)[0] for w in self.windows.by_input)

    def ever_shown(self, picked: ChosenResults) -> np.ndarray:
        """Which results a reader sees, whatever their own time."""
        begins = self.begins()
        if len(set(begins)) == 1:
            shown: np.ndarray = picked.column(EARLIEST) >= begins[0]
            return shown
        positions = picked.positions(len(self.inputs))
        shown = np.logical_and.reduce([self._times(i, positions[i]) >= low for i, low in enumerate(begins)])
        return shown

    def span(self) -> tuple[int, int] | None:
        """[low, high] of a join with the same window for all inputs; None where no NOW is known yet."""
        assert self.windows.uniform
        spans = self._spans()
        return spans[0] if spans is not None else None

    def _spans(self) -> list[tuple[int, int]] | None:
        """[low, high] per input; None where no NOW is known yet."""
        if self.now_us is None:
            return None
        start = self.start_us if self.start_us is not None else NEVER
        return [w.resolve(self.now_us, start) for w in self.windows.by_input]

    def _results_inside(self, first: int, end: int, spans: Sequence[tuple[int, int]], after: int | None = None) -> Ids:
        low, high = min(a for a, _ in spans), max(b for _, b in spans)
        picked = self.results.inside(first, end, low, high, after)
        if len(picked.numbers) == 0:
            return picked.numbers
        kept = self.are_kept(picked)
        if len(set(spans)) > 1:
            picked = picked.keep(kept)
            positions, kept = picked.positions(len(self.inputs)), np.ones(len(picked.numbers), np.bool_)
            for place, (low, high) in enumerate(spans):
                times = self._times(place, positions[place])
                kept &= (times >= low) & (times <= high)
        numbers: Ids = picked.numbers[kept]
        return numbers

    def are_kept(self, picked: ChosenResults) -> np.ndarray:
        """Which results have all tuples still in the log."""
        positions = picked.positions(len(self.inputs))
        kept: np.ndarray = np.logical_and.reduce([p >= s.floor for p, s in zip(positions, self.inputs, strict=True)])
        return kept

    def _times(self, place: int, positions: Ids, own: bool = False) -> Ids:
        columns = self._fetch(place, positions, {TIME_COLUMN}, own)
        times: Ids = columns[TIME_COLUMN].cast(pa.int64()).to_numpy(zero_copy_only=False)
        return times

    def _alone_inside(self, low: int | None = None) -> Ids:
        """Rows inside the window that have no partner and can get none, since their join window has passed; ascending ids."""
        spans = self._spans()
        if not self.alone or spans is None:
            return np.empty(0, np.int64)
        upper = self.plan.bounds[0][1]
        assert upper is not None and self.now_us is not None
        begin, end = spans[0]
        return self._alone_between(begin if low is None else low, min(end, self.now_us - upper - 1))

    def _alone_between(self, low: int, high: int, since: int = 0) -> Ids:
        """Rows without a partner by their time, from a log position on; ascending ids."""
        source = self.inputs[0]
        first = max(source.floor, since)
        found = self._read(0, lambda log_reader: log_reader.times(self.alone, source.head, low, high, first))
        ids: Ids = np.sort(-1 - found.positions)
        return ids

    def _among(self, ids: Ids, other: JoinAt, others: Ids) -> np.ndarray:
        """Which of the ids stand for combinations that are among another generation's."""
        mine, theirs = self._combinations(ids), other._combinations(others)
        found: np.ndarray = np.isin(mine, theirs)
        return found

    def _combinations(self, ids: Ids) -> np.ndarray:
        """The positions and versions of ids, as one comparable value each, which does not depend on the generation."""
        alone, numbers = ids[ids < 0], ids[ids >= 0]
        picked = self.results.pick(numbers)
        known = [*picked.positions(len(self.inputs)), *picked.versions(self.plan).values()]
        rows = np.full((len(ids), len(known)), -1, np.int64)
        rows[: len(alone), 0] = -1 - alone
        for place, column in enumerate(known):
            rows[len(alone) :, place] = column
        return np.array([r.tobytes() for r in rows], dtype=object)

    def begin(self, delivered: DeliveredWindows) -> None:
        pass

    def first(self, delivered: DeliveredWindows) -> Ids:
        return self.inside()

    def undelivered(self, before: AnswerAt, delivered: DeliveredWindows) -> Ids:
        return self.entered(before)

    # -- rows that become final: results when they are found, and those without a partner once none can come any more

    @property
    def final_to_us(self) -> int | None:
        upper, spans, watermark_us = self.plan.bounds[0][-1], self._spans(), self.watermarks[-1]
        if watermark_us is None or upper is None:
            return None
        return final_inside(self.windows.by_input[0], watermark_us - upper, spans[0][1] if spans is not None else None)

    def final_rows(self) -> pa.Table:
        spans = self._spans()
        if spans is None:
            return self.rows(np.empty(0, np.int64))
        alone = self._alone_final(spans[0][0])
        return self.rows_by_time(np.concatenate([alone, self._results_inside(0, self.count, self._beyond_now(spans))]))

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        """A result is final at once. A row without a partner may also come when it is final already."""
        was = expect(JoinAt, before)
        spans = was._spans()
        final_to_us = was.final_to_us if spans is not None else None  # without NOW nothing was told
        first = first_begin(self.windows.by_input[0], self.start_us)
        passed = self._alone_final(max(first, final_to_us if final_to_us is not None else -FOREVER))
        late = self._alone_final(spans[0][0] if spans is not None else first, was.inputs[0].head)
        return self.rows(np.concatenate([np.union1d(passed, late), self._results_found(was)]))

    def _results_found(self, before: JoinAt) -> Ids:
        """Results that were found since an earlier answer, whether or not NOW has reached them."""
        spans, was = self._spans(), before._spans()
        if spans is None or self._waits:
            entered = self.entered(before)
            return entered[entered >= 0]
        if was is None or before.results.generation != self.results.generation or before.windows != self.windows:
            found = self._results_inside(0, self.count, self._beyond_now(spans))
            known = before._results_inside(0, before.count, before._beyond_now(was)) if was is not None else found[:0]
            new: Ids = found[~self._among(found, before, known)]
            return new
        wide = [(min(low, old), high) for (low, high), (old, _) in zip(self._beyond_now(spans), was, strict=True)]
        return self._results_inside(before.count, self.count, wide)

    @property
    def _waits(self) -> bool:
        """Whether a window ends some time before NOW, so that results enter it after they were found."""
        return any(window.end.anchor == "now" and window.end.offset_us < 0 for window in self.windows.by_input)

    def _beyond_now(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The same without an end at NOW: what was found does not have to wait for a stream that lags behind."""
        if self._waits:
            return spans
        windows = self.windows.by_input
        return [(low, high if w.ends else FOREVER) for (low, high), w in zip(spans, windows, strict=True)]

    def _alone_final(self, low: int, since: int = 0) -> Ids:
        """Rows from a time and a log position on that have no partner and can get none; ascending ids."""
        final_to_us, window = self.final_to_us, self.windows.by_input[0]
        spans = self._spans()
        if not self.alone or final_to_us is None or spans is None:
            return np.empty(0, np.int64)
        low = max(low, self.kept_from_us, spans[0][0] if not window.slides else -FOREVER)
        high = min(final_to_us - 1, spans[0][1] if window.ends else FOREVER)
        return self._alone_between(low, high, since)

    # -- rows

    def select(self, limit: int | None, most: int) -> pa.Table:
        ids = self.inside()
        check_rows(ids, limit, most)
        return self.rows_by_time(ids, limit)

    def rows(self, ids: Ids) -> pa.Table:
        alone = -1 - ids[ids < 0]
        picked = self.results.pick(ids[ids >= 0])
        parts = [schema_of(self.plan.outputs).empty_table()]
        if len(alone):
            parts.append(self.projection().unmatched(np.sort(alone)))
        if len(picked.numbers):
            parts.append(self.projection().results(picked.keep(self.are_kept(picked))))
        return pa.concat_tables(parts)

    def rows_by_time(self, ids: Ids, limit: int | None = None) -> pa.Table:
        """The rows of ids by their earliest time, then by their latest, then as they were found; the first of them."""
        alone, numbers = np.sort(-1 - ids[ids < 0]), ids[ids >= 0]
        begins, ends = self.results.times(numbers)
        if len(alone):
            times = self._times(0, alone, own=True)
            begins, ends = np.concatenate([times, begins]), np.concatenate([times, ends])
        order = np.lexsort((ends, begins))[:limit]
        chosen = np.sort(order)
        table = self.rows(np.concatenate([-1 - alone, numbers])[chosen])
        return table.take(pa.array(np.searchsorted(chosen, order)))

    def projection(self) -> ResultProjection:
        tables = tuple(source.table for source in self.inputs)
        return ResultProjection(self.plan, tables, self.tables, partial(self._fetch, own=True))

    def _fetch(self, place: int, positions: Ids, wanted: set[str], own: bool = False) -> dict[str, pa.Array]:
        """Columns of an input's rows. `own`: of rows of the answer."""
        try:
            return self._read(place, lambda log_reader: columns_at(log_reader, positions, wanted, own))
        except RowsMissing:
            raise self.missing({place: positions}) from None

    def missing(self, positions: Mapping[int, Ids]) -> PenstockError:
        """The error for rows that are not there: corrupt_segment where retention has not taken them."""
        for place, named in positions.items():
            table_id = self.inputs[place].table.id
            segments = list_what_is_there(self.log.folder, table_id)
            for first in np.unique(named).tolist():
                after = [segment for segment in segments if segment.end > first]
                lost = lost_position(self.log.folder, table_id, after, first, first + 1)
                if lost is not None:
                    return missing_file(table_id, lost)
        return rows_gone(self)

    def _read(self, place: int, work: Callable[[LogReader], Read]) -> Read:
        source = self.inputs[place]
        return read_log(
            work,
            lambda: self.log.reader(source.table, source.static, source.head),
            lambda: self.log.fresh(source.table, source.static),
        )
