"""The rules that give a standing query a plan for kernels. The first one that applies decides; the rest is Spark SQL.

A package of an operator may bring a rule of its own (`rule.RULE`). It is asked first and, where it does not cover a
question after all, the others are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.catalog.state import CatalogState
from penstock.operators.registry import operators_with, part_of
from penstock.sql.binding.context import BoundQuery
from penstock.sql.plan import Plan
from penstock.sql.planning.aggregate.correlated import correlated_plan, is_correlated
from penstock.sql.planning.aggregate.join_results import is_stream_with_tables, stream_with_tables_plan
from penstock.sql.planning.aggregate.planner import aggregate_plan, is_aggregation
from penstock.sql.planning.aggregate.scalar_subqueries import has_scalar_subqueries, plan_beside_scalars
from penstock.sql.planning.join.planner import is_window_join, join_plan
from penstock.sql.planning.selection import select_plan


@dataclass(frozen=True, slots=True)
class PlanRule:
    """`applies` looks at clauses only; `plan` raises NotCovered with the reason. `latch`: also for questions with LATCH."""

    applies: Callable[[BoundQuery], bool]
    plan: Callable[[BoundQuery, CatalogState], Plan]
    latch: bool = False
    one_stream: bool = False
    decides: bool = True  # where it does not cover the question, no other rule is asked


SELECTION = PlanRule(lambda bound: True, lambda bound, state: select_plan(bound), latch=True, one_stream=True)
RULES = (
    PlanRule(has_scalar_subqueries, lambda bound, state: plan_beside_scalars(bound)),
    PlanRule(is_window_join, lambda bound, state: join_plan(bound), latch=True),
    PlanRule(is_correlated, lambda bound, state: correlated_plan(bound)),
    PlanRule(is_stream_with_tables, lambda bound, state: stream_with_tables_plan(bound)),
    PlanRule(is_aggregation, aggregate_plan, latch=True, one_stream=True),
    SELECTION,
)


def rules_for(bound: BoundQuery, latched: bool) -> Iterator[PlanRule]:
    """The rules that apply to a standing query, in order."""
    own: list[PlanRule] = [part_of(operator, "rule").RULE for operator in operators_with("rule")]
    return (rule for rule in (*own, *RULES) if (rule.latch or not latched) and rule.applies(bound))
