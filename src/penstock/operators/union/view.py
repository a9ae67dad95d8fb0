"""UNION ALL as readers see it: the answers of its branches at the same cycle."""

from __future__ import annotations

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError
from penstock.expr.windows import AnyWindow
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import Classification, FinalRows, together
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.view import AnswerOwner, Budget, View, view_of
from penstock.operators.base.window_rows import SegmentsOf
from penstock.operators.union.answer import UnionAt
from penstock.sql.plan import Plan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


class UnionView(View):
    """Unions. What is kept is kept by the branches."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        store = views.store
        found = tuple(view_of(store.operators[b.id]).at(views, b, mark, log, asked) for b in _branches(store, query))
        return UnionAt(mark.cycle, query.id, found)

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        """A row is final when it is so in its branch; the state is that of all branches."""
        known = [view_of(branch.operator).classify(branch, state) for branch in plan.branches]
        return Classification(_final_rows([each.final for each in known]), together(each.state for each in known))

    def full_window_bytes(self, plan: Plan, state: CatalogState, segments_of: SegmentsOf) -> int | None:
        found = [view_of(b.operator).full_window_bytes(b, state, segments_of) for b in plan.branches]
        return None if None in found else sum(size for size in found if size is not None)

    def first_answer(self, views: AnswerOwner, query_id: int, after: int) -> int | None:
        """The first cycle at which all branches have one."""
        store = views.store
        branches = _branches(store, store.state.queries_by_id[query_id])
        while True:
            found = [view_of(store.operators[b.id]).first_answer(views, b.id, after) for b in branches]
            known = [cycle for cycle in found if cycle is not None]
            if len(known) < len(found):
                return None
            if min(known) == max(known):
                return known[0]
            after = max(known) - 1

    def is_resting(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return any(view_of(store.operators[b.id]).is_resting(store, b) for b in _branches(store, query))

    def is_ready(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return all(view_of(store.operators[b.id]).is_ready(store, b) for b in _branches(store, query))

    def filled(self, store: AnswerStore, query: QueryDefinition) -> tuple[float, float | None] | None:
        """That of the branch that is the furthest behind."""
        found = [view_of(store.operators[b.id]).filled(store, b) for b in _branches(store, query)]
        return min((each for each in found if each is not None), key=lambda each: each[0], default=None)

    def failure(self, store: AnswerStore, query: QueryDefinition) -> PenstockError | None:
        found = (view_of(store.operators[b.id]).failure(store, b) for b in _branches(store, query))
        return next((each for each in found if each is not None), None)

    def memory(self, store: AnswerStore, query_id: int) -> int:
        branches = _branches(store, store.state.queries_by_id[query_id])
        return sum(view_of(store.operators[b.id]).memory(store, b.id) for b in branches)

    def runs(self, plan: Plan) -> str:
        return ", ".join(dict.fromkeys(view_of(branch.operator).runs(branch) for branch in plan.branches))

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        found = (view_of(b.operator).only_strategy(b, b.windows, asked) for b in plan.branches)
        return next((reason for reason in found if reason is not None), None)

    def budget(self, plan: Plan) -> Budget:
        return view_of(plan.branches[0].operator).budget(plan.branches[0])

    def check_room(self, views: AnswerOwner, plan: Plan, before: Plan | None, state: CatalogState) -> None:
        for place, branch in enumerate(plan.branches):
            was = before.branches[place] if before is not None and place < len(before.branches) else None
            view_of(branch.operator).check_room(views, branch, was, state)

    def window(self, plan: Plan) -> str | None:
        return ", ".join(dict.fromkeys(str(branch.windows) for branch in plan.branches))


def _final_rows(branches: list[FinalRows]) -> FinalRows:
    """Those of the branch with the latest ones decide."""
    later = [each for each in branches if each.when == "later"]
    never = [each for each in branches if each.when == "never"]
    if never or not later:
        return (never or branches)[0]
    tables = tuple(dict.fromkeys(table_id for each in later for table_id in each.tables))
    return FinalRows("later", "; ".join(dict.fromkeys(each.reason for each in later)), tables)


def _branches(store: AnswerStore, query: QueryDefinition) -> list[QueryDefinition]:
    return [store.state.queries_by_id[number] for number in query.branches]


VIEW = UnionView()
