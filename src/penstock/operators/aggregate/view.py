"""Aggregations over one stream as readers see them: slices, the newest rows, or a state without end, added up when asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.cycle.offset import Offset
from penstock.errors import PenstockError, error, expect
from penstock.expr.windows import FOREVER, AnyWindow, Bound, JoinWindows, RowsWindow, TimeWindow, Window
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.cell_estimate import (
    QueryRows,
    check_cells_fit,
    count_groups,
    estimate_cells,
    window_us,
)
from penstock.operators.aggregate.correlated import with_inner
from penstock.operators.aggregate.explain import slice_lines
from penstock.operators.aggregate.family import numbered_cells
from penstock.operators.aggregate.final_panes import cells_bound, final_panes
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.history import AtPositions, SliceRequest, slice_log
from penstock.operators.aggregate.landmarks import LandmarksAt
from penstock.operators.aggregate.latch import LatchFamily
from penstock.operators.aggregate.partials.cell_sums import CellRange, CombinedCells, combine, merge_combined
from penstock.operators.aggregate.per_window import answer_by_window
from penstock.operators.aggregate.rollups.notices import together
from penstock.operators.aggregate.rollups.rollup_read import find_source
from penstock.operators.aggregate.rows import answer_table
from penstock.operators.aggregate.series import AnswerSpan
from penstock.operators.aggregate.shape import SECOND_US, Measure, family_of, measures_of
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import Classification
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.view import AnswerOwner, QueryAt, View, read_table
from penstock.operators.base.window_rows import SegmentsOf
from penstock.operators.select.window_cut import WindowAt, WindowMatches, newest_counted
from penstock.sql.plan import AggregatePlan, Plan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.retention import kept_from, now_at


@dataclass(slots=True, eq=False)
class OwnWindowsAt(AggregateAt):
    """The answer at a cycle: one answer per window, joined by key."""

    part: ClassVar[type[AggregateAt]] = AggregateAt  # how each of the windows is answered

    def _compute(self, log_reader: LogReader) -> pa.Table:
        return answer_by_window(self.plan, lambda us, part: self._over(us, part, log_reader))

    def _over(self, us: int | None, part: AggregatePlan, log_reader: LogReader) -> pa.Table:
        instant, span = self.instant, self.instant.range()
        if us is not None and span is not None and instant.now_us is not None:
            high = min(span[1], instant.now_us)
            window = TimeWindow(Bound("constant", max(span[0], high - us)), Bound("constant", high))
            instant = replace(instant, window=window)
        held = self.part(
            self.cycle, self.query_id, self.name, part, instant, self.reach, self.locked, self.reader, self.fresh
        )
        held.rollup, held.kept_window = self.rollup, (self.instant.window, us)
        found = held._compute(log_reader)
        self.note = together([note for note in (self.note, held.note) if note is not None])
        return found


@dataclass(slots=True, eq=False)
class LatchAt(AggregateAt):
    """The answer of a LATCH query at a cycle. It reads the log only if a piece continues past an older cycle's head."""

    def _compute(self, log_reader: LogReader) -> pa.Table:
        measures, head = measures_of(self.plan), self.instant.head
        self._mend(log_reader, measures)
        with self.locked() as store:
            family = self._family(store)
            assert isinstance(family, LatchFamily)
            groups = family.groups
            known = {m: family.sum_below(m, head) for m in measures}
        first = min(cut for _, cut in known.values())
        if first < self.instant.floor and first < head:
            oldest = "a later one, because readings from before it are gone, and what LATCH knows of them is merged"
            raise error("cycle_gone", cycle=self.cycle, oldest=oldest)
        parts: dict[Measure, list[CombinedCells]] = {m: [lines] for m, (lines, _) in known.items()}
        missed = [(first, head)] if first < head else []
        read = list(slice_log(log_reader, SliceRequest(family_of(self.plan), measures, SECOND_US), missed))
        with self.locked():
            for sliced in read:
                for measure, own in zip(measures, numbered_cells(groups, sliced), strict=True):
                    parts[measure].append(combine(own, measure.make(), None))
        whole = {m: merge_combined(p, m.make()) for m, p in parts.items()}
        return answer_table(self.plan, whole, groups, AnswerSpan(until_us=self.now_us or 0))

    def _mend(self, log_reader: LogReader, measures: tuple[Measure, ...]) -> None:
        """Read what a failed cycle did not tell, as long as the log has it."""
        with self.locked() as store:
            look = CellRange(-FOREVER, FOREVER, self.instant.floor, self.instant.head)
            gaps = self._family(store).missing(measures, 0, look)
        for gap, needed in gaps:
            if gap.first < self.instant.floor:
                raise PenstockError(
                    "over_budget",
                    "LATCH has lost its state: it failed, and the readings are no longer kept",
                    hint="drop the query, create it anew",
                )
            self._slice(log_reader, needed, gap)


# Rows that are further apart in the log are read one by one.
_NEAR = 1 << 16


@dataclass(slots=True, eq=False)
class NewestRowsAt(AggregateAt):
    """The answer at a cycle. `counted` gives the rows that the window counts: of passing sensors, before stream predicates."""

    counted: WindowMatches = field(kw_only=True)

    def _compute(self, log_reader: LogReader) -> pa.Table:
        positions = newest_counted(log_reader, self.counted, self.instant).positions
        panes, measures = self.plan.panes, measures_of(self.plan)
        groups = Groups.by(family_of(self.plan).keys)
        width = panes.pane if panes is not None else SECOND_US
        request = SliceRequest(family_of(self.plan), measures, width, AtPositions(positions))
        found = self._sum_rows(log_reader, request, _pieces(np.sort(positions)), groups)
        whole = with_inner(self.plan, found, groups)
        return answer_table(self.plan, whole, groups, AnswerSpan(-FOREVER, self.now_us or 0, self._most_elements()))


def _pieces(positions: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of the log that hold these positions (ascending), without long stretches that hold none."""
    if not len(positions):
        return []
    cuts = np.flatnonzero(np.diff(positions) > _NEAR) + 1
    return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(positions, cuts)]


def hold_aggregate(
    owner: AnswerOwner, query: QueryAt, plan: AggregatePlan, window: Window, log: LogAccess
) -> AggregateAt:
    """Called under the lock."""
    now_us = now_at(owner.store, query.mark, query.id, query.state)
    held = _hold(owner, query, plan, now_us, window, log)
    held.scalars = hold_scalars(owner, query, now_us, window, log)
    if isinstance(window, TimeWindow) and not plan.scalars:
        span = held.instant.range()
        held.rollup = find_source(plan, owner.store.state, span[0], owner.rolled_files) if span is not None else None
    return held


def hold_scalars(
    owner: AnswerOwner, query: QueryAt, now_us: int | None, window: Window, log: LogAccess
) -> tuple[AggregateAt, ...]:
    """The subqueries of a question that is asked at this NOW through this window. Called under the lock."""
    return tuple(
        _hold(owner, query, s.plan, now_us, window if s.inherits else s.plan.window, log) for s in query.state.scalars
    )


def _hold(
    owner: AnswerOwner, query: QueryAt, plan: AggregatePlan, now_us: int | None, window: Window, log: LogAccess
) -> AggregateAt:
    store = owner.store
    table = store.state.tables_by_id[plan.table_id]
    static = store.state.rows(table.id)
    head = _read_until(owner, plan, query.mark).data.get(table.id, 0)

    def reader() -> LogReader:
        return log.reader(table, static, head)

    if isinstance(window, RowsWindow):
        predicate = plan.static_predicate
        passing = None if predicate is None else store.passing(table.id, predicate)
        counted = WindowMatches({}, None, passing, store.heard_sids(table.id, predicate))
        kind: Callable[..., AggregateAt] = partial(NewestRowsAt, counted=counted)
    elif plan.latch is not None:
        kind = LatchAt
    elif plan.landmarks:
        kind = LandmarksAt
    else:
        kind = OwnWindowsAt if plan.own_windows else AggregateAt
    return kind(
        cycle=query.mark.cycle,
        query_id=query.id,
        name=query.name,
        plan=plan,
        instant=WindowAt(store.state.retention(table.id), head, now_us, query.state.start_us, window),
        reach=query.state.reach,
        locked=owner.locked,
        reader=reader,
        fresh=lambda: log.fresh(table, static),
        watermark_us=_mark_read(owner, plan, query.mark).watermarks.get(table.id),
        kept_from_us=kept_from(store, table),
    )


def _mark_read(owner: AnswerOwner, plan: AggregatePlan, mark: Mark) -> Mark:
    """The cycle up to which readings count: of another query's rows those of the one before."""
    if plan.reads is None:
        return mark
    return next(iter(owner.feed.before(mark)), Mark(mark.cycle, mark.end, mark.nows))


def _read_until(owner: AnswerOwner, plan: AggregatePlan, mark: Mark) -> Offset:
    """How far the log counts: as far as the cycle read, or of another query's rows as far as the one before did."""
    store = owner.store
    if plan.reads is None:
        return mark.end
    if mark.cycle == store.cycle and store.start is not None:
        return store.start
    return owner.feed.mark(mark.cycle - 1).end if mark.cycle > owner.feed.oldest() else mark.end


def _is_longer(plan: AggregatePlan, before: Plan) -> bool:
    """Whether the window needs more cells than the one before."""
    length_us, was_us = window_us(plan), window_us(before.aggregation) if before.aggregation is not None else None
    return length_us is not None and (was_us is None or length_us > was_us)


class AggregateView(View):
    """Aggregations, also with LATCH."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, window = views.query_at(query, mark)
        assert not isinstance(window, JoinWindows)
        return hold_aggregate(views, found, expect(AggregatePlan, found.state.plan), window, log)

    def check_room(self, views: AnswerOwner, plan: Plan, before: Plan | None, state: CatalogState) -> None:
        asked = expect(AggregatePlan, plan)
        table = state.tables_by_id.get(asked.table_id)
        if table is None or (before is not None and not _is_longer(asked, before)):
            return
        with views.locked() as store:
            taken = store.slices.taken_by_others(asked)
        check = partial(check_cells_fit, asked, most_mb=views.settings.slices_memory_mb, taken=taken)
        read_table(views, table, state, check)

    def full_window_bytes(self, plan: Plan, state: CatalogState, segments_of: SegmentsOf) -> int | None:
        asked = expect(AggregatePlan, plan)
        groups = count_groups(family_of(asked), state.rows(asked.table_id))
        found = estimate_cells(asked, segments_of(asked.table_id), groups)
        return found.nbytes if found is not None else None

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return store.slices.memory_of(query_id)

    def kept_lines(self, views: AnswerOwner, query_id: int) -> list[str]:
        plan = expect(AggregatePlan, views.store.answers[query_id].plan)
        static = views.store.state.rows(plan.table_id)
        rows = QueryRows.of(plan, views.listings.segments(plan.table_id, 0), static)
        return slice_lines(views.store.slices, query_id, plan, rows, views.settings.slices_memory_mb)

    def is_resting(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return query.id in store.slices.fills or super().is_resting(store, query)

    def is_ready(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return query.id not in store.slices.fills and super().is_ready(store, query)

    def fills_long(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return query.id in store.slices.fills

    def filled(self, store: AnswerStore, query: QueryDefinition) -> tuple[float, float | None] | None:
        fill = store.slices.fills.get(query.id)
        return (fill.progress, fill.seconds_left) if fill is not None else super().filled(store, query)

    def runs(self, plan: Plan) -> str:
        return "slices"

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        asked = expect(AggregatePlan, plan)
        final = final_panes(asked, asked.window, (asked.table_id,), 0, state)
        return Classification(final, cells_bound(asked, asked.window, state))

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "slices are kept, a window adds up those inside it when asked; with none, every request would read its rows again"


VIEW = AggregateView()
