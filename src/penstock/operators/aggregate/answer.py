"""One aggregation's answer as of a committed cycle."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Self

import pyarrow as pa

from penstock.errors import error, expect
from penstock.expr.windows import FOREVER, Bound, TimeWindow
from penstock.operators.aggregate.approximate.brackets import CellSum, unsliced
from penstock.operators.aggregate.cell_estimate import count_groups, estimate_cells
from penstock.operators.aggregate.correlated import with_inner
from penstock.operators.aggregate.edge_rows import EdgeLook, concat_rows
from penstock.operators.aggregate.family import FamilyStore, MissingRows, numbered_cells
from penstock.operators.aggregate.final_panes import panes_ending, range_of_panes, sessions_ending, with_panes
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.history import (
    READ_ROWS,
    InPeriods,
    SliceRequest,
    WideCells,
    ranges_with,
    read_rows,
    slice_log,
    slice_pieces,
)
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.cell_sums import (
    CellRange,
    CombinedCells,
    UncoveredRows,
    combine,
    merge_combined,
)
from penstock.operators.aggregate.partials.cells import no_cells
from penstock.operators.aggregate.partials.tiles import CutSlot, refined_width
from penstock.operators.aggregate.rollups.notices import RolledUpNote, note_of
from penstock.operators.aggregate.rollups.rollup_read import RollupRange, RollupSource
from penstock.operators.aggregate.rows import answer_table, with_values
from penstock.operators.aggregate.series import AnswerSpan, Found, goes_on, slot_series, slot_words
from penstock.operators.aggregate.series_cache import SeriesAsked, SeriesLook
from penstock.operators.aggregate.shape import (
    SECOND_US,
    Measure,
    family_name,
    family_of,
    measures_of,
    plan_width,
    window_looks,
)
from penstock.operators.aggregate.slicer import SlicedFamily
from penstock.operators.aggregate.within import loose_measures, note_doubt, read_exactly
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import final_inside
from penstock.operators.base.log_reader import LogReader, read_log
from penstock.operators.base.ranges import Range
from penstock.operators.base.row_order import sorted_rows
from penstock.operators.base.table_answer import CellsOfLog, TableAnswer
from penstock.operators.select.window_cut import WindowAt
from penstock.sql.plan import AggregatePlan
from penstock.sql.plan.output import schema_of
from penstock.streams.log.segments import first_reached
from penstock.views.answer_store import AnswerStore

Reader = Callable[[], LogReader]
REFINE_ROUNDS = 5
"""A slot of a day is made again in slots of 6 hours, the one that is cut in hours, and so on."""
AHEAD_US = 120 * SECOND_US
"""So long before BEGIN enters a wide slot it is made ready."""
LARGE_ROWS = 10_000
"""An answer of so many rows takes long enough to be kept."""


@dataclass(slots=True, eq=False)
class AggregateAt(TableAnswer):
    """An aggregation's answer at a cycle. It is computed at the first request; later cells in the store do not change it."""

    operator: ClassVar[str] = "aggregate"
    finishes_later: ClassVar[bool] = True
    cycle: int
    query_id: int
    name: str
    plan: AggregatePlan
    instant: WindowAt
    reach: int
    locked: Callable[[], AbstractContextManager[AnswerStore]]
    reader: Reader
    fresh: Reader  # a reader with a new list of the log's files
    _answer: pa.Table | None = field(default=None)
    scalars: tuple[AggregateAt, ...] = field(default=(), kw_only=True)  # of the plan's subqueries
    rollup: RollupSource | None = field(default=None, kw_only=True)  # for readings that the log has no more
    note: RolledUpNote | None = field(default=None, kw_only=True)  # what came of that, once there is an answer
    kept_window: Hashable = field(
        default=None, kw_only=True
    )  # stands for the window where that is another one each time
    watermark_us: int | None = field(default=None, kw_only=True)  # of the table, as far as the answer has read it
    kept_from_us: int = field(default=-FOREVER, kw_only=True)  # retention may have taken readings before this

    @property
    def now_us(self) -> int | None:
        return self.instant.now_us

    @property
    def floors(self) -> tuple[int, ...]:
        return (self.instant.floor,)

    @property
    def stretch(self) -> int | None:
        """With panes, until one leaves the window. With HAVING or QUALIFY, a group that passes it for a moment is an alarm."""
        span, panes = self.instant.range(), self.plan.panes
        if self.plan.having is not None or self.plan.qualify is not None:
            return None
        return span[0] // panes.pane if span is not None and panes is not None else 0

    def answer(self) -> pa.Table:
        if self._answer is None and self.plan.is_approximate:
            # Cells grow wider meanwhile and sketches draw lots, so an approximate answer is given once.
            key = (self.query_id, self.cycle, str(self.instant.window), self.now_us)
            with self.locked() as store:
                self._answer = store.slices.said.get(key)
            if self._answer is None:
                answer = self._computed()
                with self.locked() as store:
                    self._answer = store.slices.said.keep(key, answer)
        elif self._answer is None:
            self._answer = self._shared()
        return self._answer

    @property
    def final_to_us(self) -> int | None:
        # A window of rows has no range: its rows are never final.
        if self.plan.panes is None and not self.plan.landmarks:
            return None
        span = self.instant.range()
        return final_inside(self.instant.window, self.watermark_us, span[1] if span is not None else None)

    def final_rows(self) -> pa.Table:
        return self._panes_ending(None, self._slides_from())

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        """Panes that have left the window in between are among them: they are found in the log."""
        was = expect(AggregateAt, before)
        return self._panes_ending(was.final_to_us, was._slides_from() if was.final_to_us is None else -FOREVER)

    def _slides_from(self) -> int:
        """Before which time the window has cut panes."""
        span = self.instant.range()
        return span[0] if span is not None and expect(TimeWindow, self.instant.window).slides else -FOREVER

    def _panes_ending(self, after: int | None, starts_from: int) -> pa.Table:
        """The rows of final panes that begin at a time or later, without those that ended up to `after`."""
        until, span, panes = self.final_to_us, self.instant.range(), self.plan.panes
        nothing = schema_of(self.plan.outputs).empty_table()
        if until is None or span is None or panes is None:
            return nothing
        window = expect(TimeWindow, self.instant.window)
        if self.plan.session_us:
            # Whether a session goes on before what retention left is not known.
            kept_from = self.kept_from_us + self.plan.session_us if self.kept_from_us > -FOREVER else -FOREVER
            sessions = sessions_ending(self.plan, window, after, until, max(starts_from, kept_from))
            low = sessions.low if window.slides else max(sessions.low, span[0])
            high = min(sessions.high, span[1]) if window.ends else sessions.high
            return self._part(sessions.plan, (low, high), span, until)
        found = panes_ending(panes, after, until, max(starts_from, self.kept_from_us))
        if found is None:
            return nothing
        low, high = range_of_panes(window, span, found)
        return self._part(with_panes(self.plan, found), (low, high), span, found.last)

    def _part(self, plan: AggregatePlan, times: tuple[int, int], span: tuple[int, int], until: int) -> pa.Table:
        """The rows of final panes alone, from the readings of some times."""
        return replace(self.between(times, span, until), plan=plan)._computed()

    def between(self, times: tuple[int, int], span: tuple[int, int], until: int) -> Self:
        """The same question about the readings of some times, at a NOW of `until` or later; `span` is its present window."""
        low, high = times
        window = TimeWindow(Bound("constant", low), Bound("constant", high))
        # NOW has passed these panes for all readings that can still come, also where the passing sensors are silent.
        instant = replace(self.instant, window=window, now_us=max(self.now_us or 0, until))
        reach = self.reach if low >= span[0] else min(self.reach, self._first_reached(low))
        return replace(self, instant=instant, reach=reach, _answer=None, rollup=None)

    def _first_reached(self, low_us: int) -> int:
        """The first log position with a row of a time or later."""
        return first_reached(self.reader().segments(), low_us, self.instant.floor)

    def _shared(self) -> pa.Table:
        """The answer. One of many rows is kept for its other pages and subscribers."""
        key, plan = (self.query_id, self.cycle, self.reach, self.instant), self.plan
        with self.locked() as store:
            known = store.slices.large.get(key) if self.rollup is None else None
        if known is not None and known[0] is plan:
            return known[1]
        answer = self._computed()
        if answer.num_rows >= LARGE_ROWS and self.rollup is None:
            with self.locked() as store:
                store.slices.large.put(key, (plan, answer), answer.nbytes)
        return answer

    def _computed(self) -> pa.Table:
        self.plan = with_values(self.plan, self.scalars)
        return sorted_rows(read_log(self._compute, self.reader, self.fresh), self.plan.sorted)

    def _compute(self, log_reader: LogReader) -> pa.Table:
        window, at = self.instant.range(), self.instant
        low, high = window if window is not None else (0, -1)
        panes = self.plan.panes
        pane = panes.pane if panes is not None else None
        look = CellRange(low, high, at.floor, at.head if window is not None else at.floor, pane)
        measures = measures_of(self.plan)
        rolled = self._rolled_up(measures, look)
        if rolled is not None:
            low, high = rolled.low, rolled.high
            look = replace(look, low=low, high=high, floor=max(look.floor, rolled.position))
        span, begun = AnswerSpan(low, min(high, at.now_us or 0), self._most_elements()), None
        if goes_on(self.plan) and rolled is None:
            begun = self._series_look(measures, look, span)
            if begun is not None and begun.answer is not None:
                return begun.answer
        since = begun.since if begun is not None else {}
        looked, groups = self._look(log_reader, measures, look, since)
        if begun is not None and begun.groups is not groups:
            since, begun = {}, None  # its numbers are of groups that were meanwhile renumbered
            looked, groups = self._look(log_reader, measures, look, since)
        rests: dict[tuple[UncoveredRows, bool, CellRange], list[tuple[Measure, CellSum]]] = {}
        for measure, parts_of in looked.items():
            for each in parts_of:
                seen = measure.range_of(_later(look, since.get(measure)))
                rests.setdefault((each.rest, each.keeps_rows, seen), []).append((measure, each))
        parts = {measure: [each.lines() for each in parts_of] for measure, parts_of in looked.items()}
        read: list[tuple[list[tuple[Measure, CellSum]], SlicedFamily]] = []
        for (rest, keeps_rows, seen), needed in rests.items():
            edges = self._edges(log_reader, rest, groups, seen, [m for m, _ in needed]) if keeps_rows else None
            if edges is not None:
                for measure, lines in edges.items():
                    parts[measure] += lines
                continue
            request = SliceRequest(
                family_of(self.plan),
                tuple(measure for measure, _ in needed),
                seen.pane or SECOND_US,
                InPeriods(rest.periods, seen.low, seen.high),
            )
            ranges = [r for positions in rest.positions for r in ranges_with(log_reader, positions, rest.periods)]
            read += [(needed, sliced) for sliced in slice_log(log_reader, request, ranges)]
        with self.locked():
            for needed, sliced in read:
                for (measure, each), own in zip(needed, numbered_cells(groups, sliced), strict=True):
                    if each.only or len(each.groups):
                        own = own.take(each.of_these(own.groups))
                    parts[measure].append(combine(own, measure.make(), measure.panes_of(panes)))
            for sliced in rolled.parts if rolled is not None else ():
                for measure, own in zip(measures, numbered_cells(groups, sliced), strict=True):
                    parts[measure].append(combine(own, measure.make(), panes))
        # The lines by slot are many, and mostly of cells alone.
        summed = {m: p[0] if m.every_us and len(p) == 1 else merge_combined(p, m.make()) for m, p in parts.items()}
        whole = with_inner(self.plan, summed, groups)
        loose = loose_measures(self.plan, whole) if self.plan.is_approximate else []
        if loose:
            exact = replace(look, floor=max(self.reach, look.floor))

            def known(sliced: SlicedFamily) -> Ints:
                with self.locked():
                    return groups.number(sliced.keys)

            whole |= read_exactly(log_reader, self.plan, loose, whole, exact, known)
        if self.plan.is_approximate:
            with self.locked() as store:
                note_doubt(store.slices.said.kept, self.query_id, self.plan, whole, bool(loose))
        if not self.plan.has_series:
            return self._finished(whole, groups, span)
        before, found = (begun.before, begun.found) if begun is not None else ({}, Found())
        if begun is not None:
            for measure in slot_words(self.plan):
                whole[measure] = slot_series(self.plan, measure, whole[measure], span, before.get(measure))
        answer = answer_table(self.plan, whole, groups, span, found)
        with self.locked() as store:
            store.slices.finish.note(self.query_id, found.spent)
        if begun is not None:
            with self.locked() as store:
                family = store.slices.families.get(family_name(family_of(self.plan)))
                # Retention may have taken rows between the look and now.
                is_whole = store.state.retention(self.plan.table_id) <= look.floor
                if family is None or family.groups is not groups or not is_whole:
                    return answer
                if not family.missing(measures, self.reach, look):
                    store.slices.series.put(family, self._series_asked(span), look, whole, answer, found)
        return answer

    def _finished(self, whole: dict[Measure, CombinedCells], groups: Groups, span: AnswerSpan) -> pa.Table:
        """The rows of the sums by pane and group."""
        return answer_table(self.plan, whole, groups, span)

    def _series_asked(self, span: AnswerSpan) -> SeriesAsked:
        return SeriesAsked(
            self.query_id,
            self.plan,
            (self.instant.window if self.kept_window is None else self.kept_window, self.reach),
            span,
        )

    def _series_look(self, measures: tuple[Measure, ...], look: CellRange, span: AnswerSpan) -> SeriesLook | None:
        """What the answer may go on from; None where nothing of it can be kept."""
        with self.locked() as store:
            family = self._family(store)
            if any(m not in family.measures for m in measures):
                return None
            family.reach_back(measures, look)
            if family.missing(measures, self.reach, look):
                return SeriesLook(family.groups)
            return store.slices.series.look(family, self._series_asked(span), look)

    def _most_elements(self) -> int:
        """How many elements its series may have, in all groups."""
        if not self.plan.has_series:
            return 0
        with self.locked() as store:
            return store.slices.series_slots_max

    def _sum_rows(
        self, log_reader: LogReader, request: SliceRequest, positions: Sequence[Range], groups: Groups
    ) -> dict[Measure, CombinedCells]:
        """The sums of rows alone, of groups that only this answer numbers."""
        panes = self.plan.panes
        parts = {m: [combine(no_cells(m.make()), m.make(), panes)] for m in request.measures}
        for sliced in slice_log(log_reader, request, positions):
            for measure, own in zip(request.measures, numbered_cells(groups, sliced), strict=True):
                parts[measure].append(combine(own, measure.make(), measure.panes_of(panes)))
        return {m: merge_combined(p, m.make()) for m, p in parts.items()}

    def _edges(
        self, log_reader: LogReader, rest: UncoveredRows, groups: Groups, look: CellRange, needed: list[Measure]
    ) -> dict[Measure, list[CombinedCells]] | None:
        """The sums of rows in slots that the window cuts; None: too many would have to be read in this process."""
        family = family_of(self.plan)
        with self.locked() as store:
            cache, measures = store.slices.edges, tuple(dict.fromkeys((*self._family(store).measures, *needed)))
        panes = needed[0].panes_of(self.plan.panes)
        edges = EdgeLook(cache, family_name(family), groups, needed, rest, look, panes)
        wanted = (r for positions in rest.positions for r in ranges_with(log_reader, positions, rest.periods))
        missing = edges.missing(wanted, log_reader.positions(look.head))
        rows = sum(end - first for first, end in missing)
        if rows > READ_ROWS or not log_reader.affords(rows):
            return None
        request = SliceRequest(family, measures, SECOND_US)
        for piece in missing:
            found = read_rows(log_reader, request, piece)
            with self.locked():
                own = [replace(part, groups=groups.number(part.keys)[part.groups], keys=[]) for part in found]
            edges.put(piece, concat_rows(own))
        return edges.sums()

    def _rolled_up(self, measures: tuple[Measure, ...], look: CellRange) -> RollupRange | None:
        """The part of the answer from a rollup, of readings below a log position."""
        if self.rollup is None or look.low > look.high:
            return None
        if self.rollup.rolled.position > look.head and self.rollup.reaches(look.low, look.high):
            raise error(
                "cycle_gone",
                cycle=self.cycle,
                oldest="a later one, because readings that came after it have been rolled up with older ones",
                hint="subscribe again: that begins with the current answer",
            )
        found = self.rollup.look(measures, look.low, look.high, look.pane)
        self.note = note_of(self.rollup, found, look.low, look.high)
        return found

    def _family(self, store: AnswerStore) -> FamilyStore:
        if self.query_id not in store.answers:
            raise error("query_not_found", query=self.name, hint="it was dropped")
        return store.slices.of(self.plan)

    def _look(
        self, log_reader: LogReader, measures: tuple[Measure, ...], look: CellRange, since: Mapping[Measure, int]
    ) -> tuple[dict[Measure, list[CellSum]], Groups]:
        """What is known in cells, after all of the history that the window reaches has been sliced. `since`: of some only from a time on."""
        first, rounds = max(self.reach, look.floor), REFINE_ROUNDS
        while True:
            with self.locked() as store:
                family, panes = self._family(store), self.plan.panes
                # A new window may need other measures; then the family no longer has those of the window that is answered here.
                known = tuple(m for m in measures if m in family.measures)
                family.reach_back(known, look)
                gaps = family.missing(known, self.reach, look)
                cut = family.unrefined(known, look) if not gaps and rounds else {}
                if not gaps and not cut:
                    whole = replace(look, floor=first)
                    return {
                        m: family.look(m, _later(look, since.get(m)), panes)
                        if m in known
                        else [unsliced(m.make(), m.range_of(whole), panes)]
                        for m in measures
                    }, family.groups
                store.check_room(self.query_id)
            for gap, needed in gaps:
                self._slice(log_reader, needed, gap)
            kept = [self._refine(log_reader, slot, needed) for slot, needed in cut.items()]
            if kept:  # a slot that gets rows meanwhile, again and again, is read row by row
                rounds = rounds - 1 if any(kept) else 0

    def _refine(self, log_reader: LogReader, slot: CutSlot, measures: list[Measure]) -> bool:
        """Slice the rows of a wide slot into finer cells; whether these are kept."""
        period = (slot.start, slot.start + slot.width)
        keep = InPeriods((period,), slot.start, slot.start + slot.width - 1)
        request = SliceRequest(family_of(self.plan), tuple(measures), refined_width(slot.width), keep)
        ranges = ranges_with(log_reader, (slot.first, slot.last + 1), (period,))
        found = list(slice_log(log_reader, request, ranges))
        with self.locked() as store:
            return self._family(store).refine(slot, measures, found)

    @property
    def cells_of_log(self) -> tuple[CellsOfLog, ...]:
        return self, *self.scalars

    def refine_ahead(self) -> None:
        """Make the wide slot ready that BEGIN enters next, where answers have used the one that it is in."""
        if isinstance(self.instant.window, TimeWindow) and self.instant.window.slides:
            read_log(self._refine_ahead, self.reader, self.fresh)

    def _refine_ahead(self, log_reader: LogReader) -> None:
        at, span = self.instant, self.instant.range()
        if span is None:
            return
        look = CellRange(*span, at.floor, at.head)
        ahead = replace(look, low=look.low + AHEAD_US)
        for _ in range(REFINE_ROUNDS):
            with self.locked() as store:
                family = self._family(store)
                known = tuple(m for m in measures_of(self.plan) if m in family.measures)
                if family.missing(known, self.reach, look) or family.unrefined(known, look):
                    return
                cut = family.unrefined(known, ahead)
            if not cut:
                return
            for slot, needed in cut.items():
                self._refine(log_reader, slot, needed)

    def fill(self, most: int) -> bool:
        """Slice at most so many rows of its own history that have no cells yet; with a budget of no rows, Spark's workers do it.

        Once all rows have cells, the wide slots that its windows cut are made again in finer ones. Whether that is done.
        """
        if not isinstance(self.instant.window, TimeWindow):
            return True
        return read_log(partial(self._fill, most=most), self.reader, self.fresh)

    def _fill(self, log_reader: LogReader, most: int) -> bool:
        at = self.instant
        span = at.range()
        if span is None:
            return True
        with self.locked() as store:
            family, look = self._family(store), CellRange(*span, at.floor, at.head)
            known = tuple(
                m for m in family.measures if m in measures_of(self.plan) or self._fills_too(store, family, m)
            )
            family.reach_back(known, look)
            gaps = family.missing(known, self.reach, look)
        for gap, needed in gaps:
            if most > 0:
                most -= self._slice(log_reader, needed, gap, most)
        if not gaps:
            self._refine_cut(log_reader, window_looks(self.plan, look, at.now_us or 0))
        return not gaps

    def _refine_cut(self, log_reader: LogReader, looks: Sequence[CellRange]) -> None:
        """Make the wide slots again that some looks cut, as `_look` would. One that gets rows meanwhile is left to it."""
        for _ in range(REFINE_ROUNDS):
            with self.locked() as store:
                family = self._family(store)
                cut = family.unrefined(tuple(m for m in measures_of(self.plan) if m in family.measures), *looks)
            kept = [self._refine(log_reader, slot, needed) for slot, needed in cut.items()]
            if not any(kept):
                return

    def _fills_too(self, store: AnswerStore, family: FamilyStore, measure: Measure) -> bool:
        """Whether another query that is FILLING needs the same rows for a measure: they are read once for both."""
        others = family.measures[measure].users & store.slices.fills.keys() & store.answers.keys()
        return any(store.answers[query_id].reach <= self.reach for query_id in others)

    def _slice(self, log_reader: LogReader, measures: list[Measure], gap: MissingRows, most: int = FOREVER) -> int:
        """Slice a range that has no cells yet, and at most so many rows; how many it were.

        Each part is stored at once, so nothing is read again if this stops half-way.
        """
        first, done = gap.first, 0
        before = (-FOREVER, FOREVER if gap.before_us is None else gap.before_us)
        for low, end in ranges_with(log_reader, gap[:2], (before,)):
            self._put(measures, gap._replace(first=first, end=low), [])  # files that have no such rows
            end = min(end, low + most - done)
            pieces = [(each, min(end, each + READ_ROWS)) for each in range(low, end, READ_ROWS)]
            is_long = most < FOREVER or end - low > READ_ROWS // 2
            keep = None if gap.before_us is None else InPeriods((before,), -FOREVER, gap.before_us - 1)
            wide = self._wide(log_reader, measures) if is_long else None
            request = SliceRequest(family_of(self.plan), tuple(measures), plan_width(self.plan), keep, wide)
            # As many rows as are read at a time; nothing where retention has taken them meanwhile.
            for (piece_first, piece_end), sliced in slice_pieces(log_reader, request, pieces):
                self._put(measures, gap._replace(first=piece_first, end=piece_end), sliced)
            first, done = end, done + end - low
            if done >= most:
                return done
        self._put(measures, gap._replace(first=first), [])
        return done

    def _put(self, measures: list[Measure], gap: MissingRows, sliced: list[SlicedFamily]) -> None:
        if gap.first < gap.end:
            with self.locked() as store:
                store.check_room(self.query_id)
                self._family(store).put(measures, gap, sliced)

    def _wide(self, log_reader: LogReader, measures: list[Measure]) -> WideCells | None:
        """What of a long history is sliced at once as wide as its cells will be."""
        segments = log_reader.segments()
        full = estimate_cells(self.plan, segments, count_groups(family_of(self.plan), log_reader.static))
        if full is None:
            return None
        with self.locked() as store:
            wide = max((w for w in full.levels if self._family(store).may_have(measures, w)), default=0)
        if wide <= plan_width(self.plan):
            return None
        return WideCells(wide, (max(s.max_ts for s in segments) // wide - 1) * wide)


def _later(look: CellRange, since_us: int | None) -> CellRange:
    return look if since_us is None else replace(look, low=max(look.low, since_us))
