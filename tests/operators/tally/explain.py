"""The tally in EXPLAIN."""

from __future__ import annotations

from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.sql.plan import Plan
from tests.operators.tally.plan import TallyPlan


def lines(plan: Plan, state: CatalogState) -> list[str]:
    return [f"tally of readings, {expect(TallyPlan, plan).window}"]
