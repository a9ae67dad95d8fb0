"""A standing query as a test hands it to the catalog: with its plan as JSON."""

from __future__ import annotations

from typing import Any

from penstock.catalog.model import QueryDefinition, plan_text


def new_query(name: str, sql: str, plan: dict[str, Any], *reads: Any, **facts: Any) -> QueryDefinition:
    """`reads` and `facts` are the further fields of a definition, in order and by name."""
    return QueryDefinition(0, name, sql, plan_text(plan), *reads, **facts)
