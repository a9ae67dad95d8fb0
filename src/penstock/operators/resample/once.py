"""Answer a SELECT with RESAMPLE once, or as of a past time, from the logs and without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.errors import expect
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.once import NotAnswered, Once, OnceOwner, PastAnswer, PastQuestion, span_at
from penstock.operators.base.row_budget import BudgetExceeded
from penstock.operators.resample.answer import ResampleAt
from penstock.operators.resample.answer_at import ResampleRequest, hold_resampled
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.operators.sparksql.moments import moment_of
from penstock.sql.plan import Plan, ResamplePlan, SparkPlan

if TYPE_CHECKING:
    from penstock.views.standing_queries import StandingQueries


def resampled_once(standing: StandingQueries, plan: SparkPlan) -> Evaluation:
    """The answer at the last committed cycle. Raises NotAnswered where Spark has to give it."""
    began = time.monotonic()
    budget = standing.new_budget()
    with standing.locked() as store:
        moment = moment_of(plan, store, None)
        most = standing.settings.result_max_rows
        log = standing.log_access(budget)
        held = _hold(standing, plan, (moment.now_us, moment.ranges), log, most)
    found, took_s = answer_once(held), time.monotonic() - began
    if found is None:
        raise NotAnswered("too much has to be read")
    return Evaluation(found, held.cycle, moment.now_us, took_s, notices=budget.notices())


def _hold(
    standing: StandingQueries,
    plan: Plan,
    moment: tuple[int, Mapping[str, tuple[int, int]]],
    log: LogAccess,
    most: int | None,
) -> ResampleAt:
    """The answer for a NOW and for what windows are then, by relation, over the logs as of the last cycle. Under the lock."""
    store, (now_us, spans) = standing.store, moment
    assert store.offset is not None
    request = ResampleRequest(0, expect(ResamplePlan, plan), store.cycle, (store.start, store.offset), now_us, spans)
    return hold_resampled(store, request, log, most)


def answer_once(held: ResampleAt) -> pa.Table | None:
    """The answer; None where Spark SQL has to give it, because the readings are too many before HAVING or LIMIT."""
    try:
        return held.answer()
    except BudgetExceeded:
        return None


@dataclass(frozen=True, slots=True)
class PastResample:
    """The answer as of a past time."""

    note: ClassVar[None] = None

    held: ResampleAt

    def select(self, limit: int | None, most: int) -> pa.Table:
        found = answer_once(self.held)
        if found is None:
            raise NotAnswered("too much has to be read")
        return found


class ResampleOnce(Once):
    """Answers RESAMPLE once, and as of a past time, from the logs."""

    def answer(self, owner: OnceOwner, plan: SparkPlan) -> Evaluation | None:
        return resampled_once(owner.standing, plan)

    def covers_past(self, plan: Plan) -> bool:
        return True

    def hold_past(self, standing: StandingQueries, asked: PastQuestion) -> PastAnswer:
        spans = {r.name: span_at(r.window, asked.at_us, asked.start_us) for r in asked.plan.relations}
        return PastResample(_hold(standing, asked.plan, (asked.at_us, spans), asked.log, asked.most))


ONCE = ResampleOnce()
