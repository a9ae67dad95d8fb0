"""Aggregates over UNION ALL as readers see them: the sums of the branches at the same cycle, merged."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import Classification, FinalRows, together
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import AnswerOwner, view_of
from penstock.operators.union.aggregates.answer import BranchSums, UnionAggregateAt
from penstock.operators.union.aggregates.plan import UnionAggregatePlan
from penstock.operators.union.view import UnionView
from penstock.sql.plan import Plan, plan_from_json
from penstock.views.feed import Mark


class UnionAggregateView(UnionView):
    """What is kept are the cells of the branches."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        store = views.store
        known = [store.state.queries_by_id[number] for number in query.branches]
        found = [view_of(store.operators[branch.id]).at(views, branch, mark, log, asked) for branch in known]
        top = expect(UnionAggregatePlan, plan_from_json(query.plan)).top
        sums = tuple(BranchSums.of(expect(AggregateAt, branch)) for branch in found)
        return UnionAggregateAt(mark.cycle, query.id, top, sums)

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        known = [view_of(branch.operator).classify(branch, state) for branch in plan.branches]
        final = FinalRows("never", "a group has its current value: the next reading may change it")
        return Classification(final, together(each.state for each in known))


VIEW = UnionAggregateView()
