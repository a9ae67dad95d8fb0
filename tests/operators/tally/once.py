"""The tally as of a past time: counted in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from penstock.errors import expect
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.once import Once, PastAnswer, PastQuestion, span_at
from penstock.sql.plan import Plan
from penstock.views.standing_queries import StandingQueries
from tests.operators.tally.plan import TallyPlan


@dataclass(frozen=True, slots=True)
class PastTally:
    """The count of readings in [low, high]."""

    note: ClassVar[None] = None

    name: str
    log_reader: LogReader
    head: int
    low: int
    high: int

    def select(self, limit: int | None, most: int) -> pa.Table:
        found = self.log_reader.times(None, self.head, self.low, self.high)
        return pa.table({self.name: pa.array([len(found.positions)], pa.int64())})


class TallyOnce(Once):
    """Nothing is kept of older times."""

    def covers_past(self, plan: Plan) -> bool:
        return True

    def hold_past(self, standing: StandingQueries, asked: PastQuestion) -> PastAnswer:
        plan, store = expect(TallyPlan, asked.plan), standing.store
        assert store.offset is not None
        head = store.offset.data.get(plan.table_id, 0)
        log_reader = asked.log.reader(store.state.tables_by_id[plan.table_id], store.state.rows(plan.table_id), head)
        return PastTally(plan.name, log_reader, head, *span_at(plan.window, asked.at_us, asked.start_us))


ONCE = TallyOnce()
