"""Answer a SELECT with RESAMPLE once, or as of a past time, from the logs and without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import expect
from penstock.operators.aggregate.trees.answer_columns import NotAnswered
from penstock.operators.base.row_budget import BudgetExceeded, RowBudget
from penstock.operators.resample.answer import ResampleAt
from penstock.operators.resample.answer_at import ResampleRequest, hold_resampled
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.operators.sparksql.moments import moment_of
from penstock.sql.plan import ResamplePlan, SparkPlan

if TYPE_CHECKING:
    from penstock.views.standing_queries import StandingQueries


def resampled_once(standing: StandingQueries, plan: SparkPlan) -> Evaluation:
    """The answer at the last committed cycle. Raises NotAnswered where Spark has to give it."""
    began = time.monotonic()
    budget = standing.new_budget()
    with standing.locked() as store:
        moment = moment_of(plan, store, None)
        most = standing.settings.result_max_rows
        held = hold_once(standing, plan, moment.now_us, moment.ranges, most, budget)
    found, took_s = answer_once(held), time.monotonic() - began
    if found is None:
        raise NotAnswered("too much has to be read")
    return Evaluation(found, held.cycle, moment.now_us, took_s, notices=budget.notices())


def hold_once(
    standing: StandingQueries,
    plan: SparkPlan,
    now_us: int,
    spans: Mapping[str, tuple[int, int]],
    most: int | None,
    budget: RowBudget,
) -> ResampleAt:
    """The answer for a NOW and for what windows are then, by relation, over the logs as of the last cycle. Under the lock."""
    store = standing.store
    assert store.offset is not None
    request = ResampleRequest(0, expect(ResamplePlan, plan), store.cycle, (store.start, store.offset), now_us, spans)
    return hold_resampled(store, request, standing.log_access(budget), most)


def answer_once(held: ResampleAt) -> pa.Table | None:
    """The answer; None where Spark SQL has to give it, because the readings are too many before HAVING or LIMIT."""
    try:
        return held.answer()
    except BudgetExceeded:
        return None
