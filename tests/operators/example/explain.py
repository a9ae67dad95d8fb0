"""The example in EXPLAIN, one fact a line."""

from __future__ import annotations

from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.sql.explain.plan import explain
from penstock.sql.plan import Plan
from tests.operators.example.plan import TopPlan


def lines(plan: Plan, state: CatalogState) -> list[str]:
    top = expect(TopPlan, plan)
    limit = "all rows" if top.sorted.limit is None else f"the first {top.sorted.limit} rows"
    return [f"sorted when asked: {limit} of", *(f"  {line}" for line in explain(top.rows, state).splitlines())]
