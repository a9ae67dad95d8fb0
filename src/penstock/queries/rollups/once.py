"""A SELECT that is asked once and reaches further back than the log: cells of a rollup and rows of the log, without Spark."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from penstock.catalog.model import Table
from penstock.operators.slices.approximate.looking import NONE, Looked
from penstock.operators.slices.cells import no_cells
from penstock.operators.slices.combining import Look, Rest, combine, merge_combined
from penstock.operators.windows import FOREVER
from penstock.pipeline.slices.shape import Measure, family_of, slice_width
from penstock.queries.fetch import Fetcher
from penstock.queries.results import Result
from penstock.queries.rollups.looking import find_source
from penstock.queries.rollups.sorting import sorted_rows
from penstock.queries.slices.family import number_groups
from penstock.queries.slices.groups import Groups
from penstock.queries.slices.held import AggregateHeld
from penstock.queries.slices.reading import inside, slice_log
from penstock.queries.standing import StandingQueries
from penstock.queries.windowed import Instant
from penstock.sql.asked_once import AskedOnce

# What of the log one question may have read here; more than that is work for Spark, which knows the log alone.
READ_MAX_ROWS = 20_000_000


@dataclass(slots=True, eq=False)
class AskedOnceHeld(AggregateHeld):
    """Nothing is kept for a question that is asked once: rows of the log are read, cells of the rollup added."""

    def rows_to_read(self) -> int:
        look = self._first_look()
        return sum(end - first for first, end in self.reader().ranges(look.floor, look.head, look.low, look.high))

    def _first_look(self) -> Look:
        assert self.rollup is not None
        low, high = self.instant.range() or (0, -1)
        return Look(low, high, max(self.instant.floor, self.rollup.rolled.position), self.instant.head)

    def _look(
        self, fetcher: Fetcher, measures: tuple[Measure, ...], look: Look
    ) -> tuple[dict[Measure, list[Looked]], Groups]:
        panes, groups = self.plan.panes, Groups()
        width = slice_width(panes) if panes is None else math.gcd(panes.width, panes.step)
        parts = {m: [combine(no_cells(m.make()), m.make(), panes)] for m in measures}
        keep = inside([(-FOREVER, FOREVER)], look.low, look.high)
        for first, end in fetcher.ranges(look.floor, look.head, look.low, look.high):
            for sliced in slice_log(fetcher, family_of(self.plan), measures, first, end, width, keep):
                numbers = number_groups(groups, sliced)
                for measure, cells in zip(measures, sliced.cells, strict=True):
                    own = replace(cells, groups=numbers[cells.groups])
                    parts[measure].append(combine(own, measure.make(), panes))
        nothing = Rest((), ())
        return {m: [Looked(merge_combined(p, m.make()), nothing, NONE)] for m, p in parts.items()}, groups


def answer_once(standing: StandingQueries, asked: AskedOnce) -> Result | None:
    """The answer at the last committed cycle; None where no rollup has anything of that time that the log has not."""
    held = _hold(standing, asked)
    if held is None or held.rows_to_read() > READ_MAX_ROWS:
        return None
    rows = sorted_rows(held.answer(), asked.order)
    if held.note is None or held.note.window_us is None:
        return None
    rows = rows.slice(asked.offset, asked.limit)
    return Result(rows, cycle=held.cycle, now_us=held.now_us, notices=held.note.notices, rolled_up=held.note)


def _hold(standing: StandingQueries, asked: AskedOnce) -> AskedOnceHeld | None:
    plan, listings, log = asked.plan, standing.listings, standing.folder.log
    with standing.locked() as store:
        state = store.state
        table = state.tables_by_id.get(plan.table_id)
        if table is None or store.offset is None:
            return None
        now_us = store.now_of(table, plan.static_predicate)
        head = store.offset.data.get(table.id, 0)
        instant = Instant(state.retention(table.id), head, now_us, None, plan.window)
        span = instant.range()
        source = find_source(plan, state, span[0], standing.rolled_files) if span is not None else None
        if span is None or source is None or not source.reaches(*span):
            return None
        static, cycle = state.rows(table.id), store.cycle

    def reader(table: Table = table) -> Fetcher:
        return Fetcher(log, table, static, lambda: listings.segments(table.id, head), listings.files)

    def fresh(table: Table = table) -> Fetcher:
        return Fetcher(log, table, static, lambda: listings.fresh(table.id))

    return AskedOnceHeld(cycle, 0, "", plan, instant, 0, standing.locked, reader, fresh, rollup=source)
