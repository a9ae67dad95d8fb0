"""Queries that Spark SQL evaluates as readers see them: the newest evaluation that is in the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError, error, expect
from penstock.expr.windows import AnyWindow
from penstock.operators.base.answer import AnswerAt, Ids
from penstock.operators.base.finality import Classification, FinalRows, StateBound
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.table_answer import TableAnswer
from penstock.operators.base.view import AnswerOwner, View, cycle_gone, failure_of, filling
from penstock.operators.join.view import VIEW as JOIN
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.sql.plan import Plan, SparkPlan
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark


@dataclass(frozen=True, slots=True)
class EvaluationAt(TableAnswer):
    """The answer of such a query at a cycle: the newest evaluation that was committed by then."""

    operator: ClassVar[str] = "sparksql"
    cycle: int
    query_id: int
    evaluation: Evaluation
    of_cycle: int
    now_us: int | None
    floors: tuple[int, ...] = ()

    @property
    def stands_for(self) -> int:
        return self.of_cycle

    def answer(self) -> pa.Table:
        return self.evaluation.table

    def entered(self, before: AnswerAt) -> Ids:
        if expect(EvaluationAt, before).evaluation is self.evaluation:
            return np.empty(0, np.int64)
        return TableAnswer.entered(self, before)


class SparkSqlView(View):
    """Whole evaluations, where there is one over the rows of a join that runs in the cycle."""

    first_wait_s = 60.0

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        evaluations = views.store.evaluations
        found = evaluations.by_query[query.id].at(mark.cycle)
        if found is None:
            raise cycle_gone(views, query.id, mark.cycle)
        cycle, now_us = found.cycle, found.now_us
        if found is evaluations.by_query[query.id].last and mark is views.feed.last():
            cycle, now_us = evaluations.stands_for(query.id) or (cycle, now_us)
        return EvaluationAt(mark.cycle, query.id, found, cycle, now_us)

    def first_answer(self, views: AnswerOwner, query_id: int, after: int) -> int | None:
        kept = views.store.evaluations.by_query[query_id].kept
        return max(after + 1, views.feed.oldest(), kept[0][0]) if kept else None

    def is_resting(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return query.paused or not self.is_ready(store, query)

    def is_ready(self, store: AnswerStore, query: QueryDefinition) -> bool:
        return store.evaluations.is_answered(query.id)

    def not_ready(self, store: AnswerStore, query: QueryDefinition) -> PenstockError:
        answer = store.answers.get(query.id)
        if answer is not None and not answer.ready:
            return filling(query.name, (answer.progress, None))
        detail = f'query "{query.name}" has not been evaluated yet'
        return error("not_ready", detail=detail, hint="ask again in a moment")

    def failure(self, store: AnswerStore, query: QueryDefinition) -> PenstockError | None:
        """That of a join below, or its own."""
        below = (store.state.queries[name] for name in store.joins_read(query.id))
        found = next((why for join in below if (why := failure_of(join.name, store.answers.get(join.id)))), None)
        failure = store.evaluations.failure(query.id)
        if found is None and failure is not None:
            found = failure.to_error()
        return found or failure_of(query.name, store.answers.get(query.id))

    def memory(self, store: AnswerStore, query_id: int) -> int:
        join = JOIN.memory(store, query_id) if query_id in store.answers else 0
        return store.evaluations.memory_of(query_id) + join

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        final = FinalRows("never", "Spark SQL evaluates it as a whole, and any row may be another one then")
        return Classification(
            final, StateBound("unknown", "Spark SQL evaluates it as a whole and keeps its last answers")
        )

    def runs(self, plan: Plan) -> str:
        return "window join, then Spark SQL" if plan.kernel is not None else "Spark SQL"

    def check_room(self, views: AnswerOwner, plan: Plan, before: Plan | None, state: CatalogState) -> None:
        JOIN.check_room(views, plan, before, state)

    def box(self, plan: Plan) -> tuple[str, tuple[str, ...]]:
        return "Spark SQL", (expect(SparkPlan, plan).reason,)

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        return "Spark SQL evaluates it as a whole and its last answer is kept"


VIEW = SparkSqlView()
