"""When the example plans a question: one stream, with ORDER BY or LIMIT."""

from __future__ import annotations

from penstock.catalog.state import CatalogState
from penstock.sql.binding.context import BoundQuery
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.planning.row_order import sorting_of
from penstock.sql.planning.rules import PlanRule
from penstock.sql.planning.selection import select_plan
from tests.operators.example.plan import TopPlan

CLAUSES = ("order", "limit", "offset")


def applies(bound: BoundQuery) -> bool:
    context = bound.collected.contexts[0]
    return any(bound.query.args.get(clause) for clause in CLAUSES) and not context.aggregated


def plan(bound: BoundQuery, state: CatalogState) -> TopPlan:
    """NotCovered leaves the question as it was."""
    order = sorting_of(bound)
    if order is None:
        raise NotCovered("nothing is sorted")
    clauses = {clause: bound.query.args.pop(clause, None) for clause in CLAUSES}
    try:
        return TopPlan(select_plan(bound), order)
    finally:
        bound.query.args.update({clause: found for clause, found in clauses.items() if found is not None})


RULE = PlanRule(applies, plan, one_stream=True, decides=False)
