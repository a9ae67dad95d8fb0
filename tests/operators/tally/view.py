"""The tally as readers see it: the sum of the counts up to a cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from penstock.catalog.model import QueryDefinition
from penstock.errors import expect
from penstock.expr.windows import AnyWindow
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.table_answer import TableAnswer
from penstock.operators.base.view import AnswerOwner, View
from penstock.sql.plan import Plan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.retention import now_at
from tests.operators.tally.plan import TallyPlan
from tests.operators.tally.state import TallyState


@dataclass(frozen=True, slots=True)
class TallyAt(TableAnswer):
    """The answer at a cycle: one number."""

    operator: ClassVar[str] = "tally"
    cycle: int
    query_id: int
    now_us: int | None
    name: str
    count: int
    floors: tuple[int, ...] = ()

    def answer(self) -> pa.Table:
        return pa.table({self.name: pa.array([self.count], pa.int64())})


class TallyView(View):
    """Counts of readings since a time."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, _ = views.query_at(query, mark)
        counts = _counts(views.store, query.id)
        now_us = now_at(views.store, mark, query.id, found.state)
        name = expect(TallyPlan, found.state.plan).name
        return TallyAt(mark.cycle, query.id, now_us, name, sum(n for cycle, n in counts if cycle <= mark.cycle))

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return 16 * len(_counts(store, query_id))

    def runs(self, plan: Plan) -> str:
        return "tally"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "a count is kept"


def _counts(store: AnswerStore, query_id: int) -> list[tuple[int, int]]:
    return expect(TallyState, store.states["tally"]).counts[query_id]


VIEW = TallyView()
