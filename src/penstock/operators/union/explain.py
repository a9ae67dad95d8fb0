"""UNION ALL in EXPLAIN, one fact a line."""

from __future__ import annotations

from penstock.catalog.state import CatalogState
from penstock.sql.explain.plan import explain
from penstock.sql.plan import Plan


def lines(plan: Plan, state: CatalogState) -> list[str]:
    first = f"the rows of {len(plan.branches)} branches, each with its ts; NOW is the smallest of their streams"
    return [first, *branch_lines(plan, state)]


def branch_lines(plan: Plan, state: CatalogState) -> list[str]:
    """The branches, numbered."""
    found: list[str] = []
    for place, branch in enumerate(plan.branches, 1):
        first, *others = explain(branch, state).splitlines()
        found += [f"  {place}: {first}", *(f"  {line}" for line in others)]
    return found
