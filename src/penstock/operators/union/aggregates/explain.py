"""Aggregates over UNION ALL in EXPLAIN, one fact a line."""

from __future__ import annotations

from penstock.catalog.state import CatalogState
from penstock.operators.union.explain import branch_lines
from penstock.sql.plan import Plan


def lines(plan: Plan, state: CatalogState) -> list[str]:
    first = f"aggregates over {len(plan.branches)} branches, merged by key; NOW is the smallest of their streams"
    return [first, *branch_lines(plan, state)]
