"""The branches of a standing query, such as one with UNION ALL: queries of their own, that cycles run as any others.

They are no entries of the journal. Their numbers stand in the definition of the query, their plans in its plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.catalog.model import QueryDefinition, plan_text


def branch_definitions(query: QueryDefinition) -> Iterator[QueryDefinition]:
    """One per branch. It has everything of the query but its number, its plan and its branches."""
    if not query.branches:
        return
    plans: list[dict[str, object]] = query.plan["branches"]  # type: ignore[assignment] # as its operator stores it
    for number, plan in zip(query.branches, plans, strict=True):
        yield replace(query, id=number, stored_plan=plan_text(plan), branches=(), branch_of=query.id)
