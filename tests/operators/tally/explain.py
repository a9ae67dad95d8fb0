"""The tally in EXPLAIN."""

from __future__ import annotations

from penstock.errors import expect
from penstock.sql.plan import Plan
from penstock.sql.scope import SqlCatalog
from tests.operators.tally.plan import TallyPlan


def lines(plan: Plan, state: SqlCatalog) -> list[str]:
    return [f"tally of readings, {expect(TallyPlan, plan).window}"]
