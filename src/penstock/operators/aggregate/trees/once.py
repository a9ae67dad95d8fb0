"""Aggregates over a query's answer that are asked once: from trees that are kept over it."""

from __future__ import annotations

from penstock.operators.base.once import Once, OnceOwner
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.sql.plan import SparkPlan


class TreeOnce(Once):
    """Answers aggregates over a query's answer from a tree, which takes less time than to plan the question."""

    plans_are_kept = True

    def answer(self, owner: OnceOwner, plan: SparkPlan) -> Evaluation | None:
        return owner.on_demand.answer(plan)


ONCE = TreeOnce()
