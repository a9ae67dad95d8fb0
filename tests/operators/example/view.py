"""The example as readers see it: the rows of the selection inside its window, sorted and cut when asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import Classification, FinalRows
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.row_order import sorted_rows
from penstock.operators.base.table_answer import TableAnswer
from penstock.operators.base.view import AnswerOwner
from penstock.operators.base.window_rows import SegmentsOf
from penstock.operators.select.view import SelectView
from penstock.sql.plan import Plan
from penstock.sql.plan.output import Sorted
from penstock.views.feed import Mark
from tests.operators.example.plan import TopPlan


@dataclass(frozen=True, slots=True)
class TopAt(TableAnswer):
    """The answer at a cycle: one table, so two cycles are compared row by row."""

    operator: ClassVar[str] = "top"
    cycle: int
    query_id: int
    rows_inside: AnswerAt
    sorted: Sorted

    @property
    def now_us(self) -> int | None:
        return self.rows_inside.now_us

    @property
    def floors(self) -> tuple[int, ...]:
        return self.rows_inside.floors

    def answer(self) -> pa.Table:
        return sorted_rows(self.rows_inside.rows(self.rows_inside.inside()), self.sorted)


class TopView(SelectView):
    """Matches are kept as those of any selection; `at` is different, and no row is final."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        plan = expect(TopPlan, views.store.answers[query.id].whole)
        return TopAt(mark.cycle, query.id, super().at(views, query, mark, log, asked), plan.sorted)

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        """What is kept is what the selection keeps; any row may have to make room."""
        below = super().classify(expect(TopPlan, plan).rows, state)
        return replace(below, final=FinalRows("never", "a later reading may take its place"))

    def full_window_bytes(self, plan: Plan, state: CatalogState, segments_of: SegmentsOf) -> int | None:
        return super().full_window_bytes(expect(TopPlan, plan).rows, state, segments_of)

    def runs(self, plan: Plan) -> str:
        return "shared pass, sorted"


VIEW = TopView()
