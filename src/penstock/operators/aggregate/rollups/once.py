"""Answer a one-shot SELECT without Spark, from rows of the log and, for older readings, cells of a rollup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pyarrow as pa

from penstock.catalog.model import Table
from penstock.errors import error
from penstock.expr.windows import FOREVER
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.approximate.brackets import NONE, CellSum
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.history import InPeriods, SliceRequest
from penstock.operators.aggregate.landmarks import LandmarksAt
from penstock.operators.aggregate.partials.cell_sums import CellRange, UncoveredRows
from penstock.operators.aggregate.rollups.rollup_read import find_source
from penstock.operators.aggregate.series import AnswerSpan
from penstock.operators.aggregate.series_cache import SeriesLook
from penstock.operators.aggregate.shape import Measure, family_of, plan_width
from penstock.operators.aggregate.view import OwnWindowsAt
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.row_budget import RowBudget
from penstock.operators.select.window_cut import WindowAt
from penstock.sql.plan import AggregatePlan
from penstock.views.results import Result
from penstock.views.standing_queries import StandingQueries


@dataclass(slots=True, eq=False)
class OneShotAggregateAt(AggregateAt):
    """The answer of a one-shot SELECT. It reads rows of the log and adds cells of the rollup; nothing is kept."""

    def answer(self) -> pa.Table:
        return self._computed()

    def _series_look(self, measures: tuple[Measure, ...], look: CellRange, span: AnswerSpan) -> SeriesLook | None:
        return None

    def _look(
        self, log_reader: LogReader, measures: tuple[Measure, ...], look: CellRange, since: Mapping[Measure, int]
    ) -> tuple[dict[Measure, list[CellSum]], Groups]:
        panes, groups = self.plan.panes, Groups.by(family_of(self.plan).keys)
        width = plan_width(self.plan) if panes is None or self.plan.has_series else panes.pane
        keep = InPeriods(((-FOREVER, FOREVER),), look.low, look.high)
        positions = log_reader.ranges(look.floor, look.head, look.low, look.high)
        request, nothing = SliceRequest(family_of(self.plan), measures, width, keep), UncoveredRows((), ())
        found = self._sum_rows(log_reader, request, positions, groups)
        return {m: [CellSum(partial(found.__getitem__, m), nothing, NONE)] for m in found}, groups


@dataclass(slots=True, eq=False)
class OneShotOwnWindowsAt(OwnWindowsAt):
    """The answer of a one-shot SELECT with windows of its aggregates' own."""

    part: ClassVar[type[AggregateAt]] = OneShotAggregateAt

    def answer(self) -> pa.Table:
        return self._computed()


@dataclass(slots=True, eq=False)
class OneShotLandmarksAt(LandmarksAt):
    """The answer of a one-shot SELECT with LANDMARK."""

    part: ClassVar[type[AggregateAt]] = OneShotAggregateAt

    def answer(self) -> pa.Table:
        return self._computed()


def answer_once(standing: StandingQueries, asked: AggregatePlan) -> Result | None:
    """The answer at the last committed cycle; None where no rollup has anything of that time that the log has not."""
    budget = standing.new_budget()
    held = _hold_last(standing, asked, budget)
    if held is None or held.rollup is None:
        return None
    result = _answered(held, budget)
    note = result.rolled_up
    return result if note is not None and (note.window_us is not None or note.notices) else None


def answer_from_log(standing: StandingQueries, asked: AggregatePlan) -> Result:
    """What Spark SQL has no words for: the answer at the last committed cycle, whether there is a rollup or not."""
    budget = standing.new_budget()
    held = _hold_last(standing, asked, budget)
    if held is None:
        raise error("not_ready", detail="no cycle has taken in the table as it is now", hint="ask again in a moment")
    return _answered(held, budget)


def _hold_last(standing: StandingQueries, asked: AggregatePlan, budget: RowBudget) -> AggregateAt | None:
    with standing.locked():
        return hold_once(standing, asked, standing.log_access(budget))


def _answered(held: AggregateAt, budget: RowBudget) -> Result:
    rows = held.answer()
    notices = (*(held.note.notices if held.note is not None else ()), *budget.notices())
    return Result(rows, cycle=held.cycle, now_us=held.now_us, notices=notices, rolled_up=held.note)


def hold_once(
    standing: StandingQueries, plan: AggregatePlan, log: LogAccess, at_us: int | None = None
) -> AggregateAt | None:
    """The answer at the last cycle; None where no cycle has the table yet. `at_us`: another NOW than that of the cycle."""
    with standing.locked() as store:
        state = store.state
        table = state.tables_by_id.get(plan.table_id)
        if table is None or store.offset is None:
            return None
        now_us = store.now_of(table, plan.static_predicate) if at_us is None else at_us
        head = store.offset.data.get(table.id, 0)
        instant = WindowAt(state.retention(table.id), head, now_us, None, plan.window)
        span = instant.range()
        source = find_source(plan, state, span[0], standing.rolled_files) if span is not None else None
        if span is None or source is None or not source.reaches(*span):
            source = None
        static, cycle = state.rows(table.id), store.cycle

    def reader(table: Table = table) -> LogReader:
        return log.reader(table, static, head)

    def fresh(table: Table = table) -> LogReader:
        return log.fresh(table, static)

    def held(kind: type[AggregateAt], asked: AggregatePlan) -> AggregateAt:
        return kind(cycle, 0, "", asked, instant, 0, standing.locked, reader, fresh, rollup=source)

    if plan.landmarks:
        found = held(OneShotLandmarksAt, plan)
        found.scalars = tuple(held(OneShotAggregateAt, scalar.plan) for scalar in plan.scalars)
        return found
    return held(OneShotOwnWindowsAt if plan.own_windows else OneShotAggregateAt, plan)
