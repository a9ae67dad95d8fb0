"""Notices about a query that is created or changed without an error."""

from __future__ import annotations

from penstock.catalog.state import CatalogState
from penstock.operators.base.view import unheeded
from penstock.sql.plan import Plan
from penstock.statements.retention_notice import beyond_retention
from penstock.views.standing_queries import StandingQueries


def notices_of(
    standing: StandingQueries, name: str, plan: Plan, strategy: str | None, state: CatalogState
) -> tuple[str, ...]:
    """All notices about a query."""
    found = (beyond_retention(standing, name, plan, state), strategy_unheeded(name, plan, strategy))
    return tuple(notice for notice in found if notice is not None)


def strategy_unheeded(name: str, plan: Plan, strategy: str | None) -> str | None:
    """The notice that a requested strategy does not apply to such a query; None where it does."""
    reason = unheeded(plan, strategy)
    return None if reason is None else f'strategy "{strategy}" changes nothing for query "{name}": {reason}'
