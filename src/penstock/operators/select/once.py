"""Selections as of a past time: evaluated from the rows of the log that their windows reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from penstock.errors import expect
from penstock.expr.evaluate import evaluate_mask, evaluate_static
from penstock.expr.expression import columns_of
from penstock.expr.windows import FOREVER, RowsWindow
from penstock.operators.base.answer import check_rows
from penstock.operators.base.log_reader import LogReader, TimedPositions
from penstock.operators.base.once import Once, PastAnswer, PastQuestion, history_gone, span_at
from penstock.operators.select.window_cut import newest
from penstock.sql.plan import Plan, SelectPlan

if TYPE_CHECKING:
    from penstock.views.standing_queries import StandingQueries


@dataclass(frozen=True, slots=True)
class PastSelection:
    """The rows of a selection inside its window at a past time, in [low, high]."""

    note: ClassVar[None] = None

    plan: SelectPlan
    log_reader: LogReader
    floor: int
    head: int
    low: int
    high: int

    def select(self, limit: int | None, most: int) -> pa.Table:
        found = self._matching(self._counted())
        return self.log_reader.rows(self.plan, check_rows(found.positions, limit, most), [])

    def _counted(self) -> TimedPositions:
        """Rows inside the window that pass the plan's predicate on static columns."""
        window, rows = self.plan.window, self._passing(self.low, self.high)
        if isinstance(window, RowsWindow):
            rows = rows.take(newest(rows, window, self.log_reader.static))
            if self.floor and not window.per_sensor and len(rows.positions) < window.count:
                # Some of the missing rows existed, and retention deleted them.
                kept = np.sort(self._passing(-FOREVER, FOREVER).times)[window.count - 1 :]
                raise history_gone(self.high, int(kept[0]) if len(kept) else None, 0)
        return rows

    def _passing(self, low: int, high: int) -> TimedPositions:
        rows = self.log_reader.times(None, self.head, low, high, self.floor)
        if self.plan.static_predicate is None:
            return rows
        passing = evaluate_static(self.plan.static_predicate, self.log_reader.static.versions())
        return rows.take(np.flatnonzero(passing[rows.vids]))

    def _matching(self, rows: TimedPositions) -> TimedPositions:
        predicate = self.plan.stream_predicate
        if predicate is None or not len(rows.positions):
            return rows
        columns = self.log_reader.columns(columns_of(predicate), rows.positions)
        return rows.take(np.flatnonzero(evaluate_mask(predicate, columns, len(rows.positions))))


class SelectOnce(Once):
    """User functions run in workers only, and what lasts is not known as of older times: those Spark SQL evaluates."""

    def covers_past(self, plan: Plan) -> bool:
        asked = expect(SelectPlan, plan)
        return not asked.functions and asked.lasting is None

    def hold_past(self, standing: StandingQueries, asked: PastQuestion) -> PastAnswer:
        plan, store = expect(SelectPlan, asked.plan), standing.store
        assert store.offset is not None
        table, static = store.state.tables_by_id[plan.table_id], store.state.rows(plan.table_id)
        head = store.offset.data.get(plan.table_id, 0)
        log_reader = asked.log.reader(table, static, head)
        low, high = span_at(plan.window, asked.at_us, asked.start_us)
        return PastSelection(plan, log_reader, store.state.retention(plan.table_id), head, low, high)


ONCE = SelectOnce()
