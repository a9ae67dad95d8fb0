"""Aggregates as of a past time that Spark SQL has no words for, such as mining functions: from the rows of the log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import error, expect
from penstock.expr.windows import Bound, TimeWindow
from penstock.operators.aggregate.rollups.once import hold_once
from penstock.operators.base.once import Once, PastAnswer, PastQuestion, span_at
from penstock.sql.plan import AggregatePlan, Plan

if TYPE_CHECKING:
    from penstock.views.standing_queries import StandingQueries


class AggregateOnce(Once):
    """Answers aggregations that Spark SQL has no words for; Spark SQL answers the others."""

    def covers_past(self, plan: Plan) -> bool:
        asked = expect(AggregatePlan, plan)
        hint = "AS OF CYCLE n, as long as the cycle is kept"
        if asked.latch is not None:
            raise error("not_supported", feature="AS OF a time on a query with LATCH", hint=hint)
        if asked.is_answer_only and (asked.scalars or not isinstance(asked.window, TimeWindow)):
            feature = "AS OF a time on mining functions beside a subquery, or over the newest rows,"
            raise error("not_supported", feature=feature, hint=hint)
        return asked.is_answer_only

    def hold_past(self, standing: StandingQueries, asked: PastQuestion) -> PastAnswer:
        plan = expect(AggregatePlan, asked.plan)
        low, high = span_at(plan.window, asked.at_us, asked.start_us)
        window = TimeWindow(Bound("constant", low), Bound("constant", high))
        held = hold_once(standing, replace(plan, window=window), asked.log, high)
        assert held is not None  # its query has had a cycle
        return held


ONCE = AggregateOnce()
