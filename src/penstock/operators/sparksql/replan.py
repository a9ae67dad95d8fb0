"""Plan queries of Spark SQL again from their own SQL where an older version stored the plan.

Texts of version 1 have places that were filled in by text substitution, so a literal could become SQL. Later ones may have
regular expressions of Java's, which backtrack. Neither are run (`sql.plan.plan_json`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.errors import PenstockError, error
from penstock.sql.parse import parse_select
from penstock.sql.plan import SparkPlan
from penstock.sql.planning.planner import plan_query

# What may differ between the stored plan and one that is made now.
_KEPT_APART: dict[str, Any] = {"sql": "", "reason": "", "append_only": False, "functions": (), "inlined": ()}


def with_text(plan: SparkPlan, definition: QueryDefinition, state: CatalogState) -> SparkPlan:
    """A standing query's plan with a text that can run: its own, or that of the same question planned now.

    Raises what the query fails with where it cannot be planned any more, or gives another answer than it gave.
    """
    if plan.sql:
        return plan
    try:
        for shared in (True, False):
            found = plan_query(parse_select(definition.sql), state, True, SYSTEM_TABLES, shared, joins=True, spent=True)
            text = found.spark
            if text is not None and replace(text, **_KEPT_APART) == replace(plan, **_KEPT_APART):
                return replace(plan, sql=text.sql, functions=text.functions)
        raise error("invalid_definition", detail="it has other columns or reads other tables now")
    except PenstockError as failure:
        hint = f'DROP QUERY "{definition.name}" and create it again'
        detail = f"an older version planned this query, and it cannot be planned again: {failure.message}"
        raise PenstockError(failure.condition, detail, hint=hint) from failure
