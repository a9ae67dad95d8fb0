"""When the tally plans a question: COUNT(*) of one stream, since a time that START gives."""

from __future__ import annotations

from penstock.catalog.state import CatalogState
from penstock.expr.expression import Column
from penstock.expr.windows import TimeWindow
from penstock.sql.binding.context import BoundQuery
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.planning.aggregate.planner import aggregate_plan, is_aggregation
from penstock.sql.planning.rules import PlanRule
from tests.operators.tally.plan import TallyPlan


def plan(bound: BoundQuery, state: CatalogState) -> TallyPlan:
    """NotCovered leaves the question as it was."""
    found = aggregate_plan(bound, state)
    counts = [(call.function, call.arguments) for call in found.aggregates] == [("count", ())]
    plain = counts and len(found.outputs) == 1 and isinstance(found.outputs[0].expr, Column)
    beside = (found.keys, found.static_predicate, found.stream_predicate, found.having, found.panes, found.reads)
    if not plain or any(beside) or not isinstance(found.window, TimeWindow) or found.window.begin.anchor != "start":
        raise NotCovered("only COUNT(*) since START is tallied")
    return TallyPlan(found.table_id, found.outputs[0].name, found.window)


RULE = PlanRule(is_aggregation, plan, one_stream=True, decides=False)
