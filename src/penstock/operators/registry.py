"""The operators. `Plan.operator` names one; its package has the parts that other packages load by that name.

A new operator is a package with a plan, a rule and a view, and one line here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.operators.base.view import View

OPERATORS: dict[str, str] = {
    "select": "penstock.operators.select",
    "join": "penstock.operators.join",
    "aggregate": "penstock.operators.aggregate",
    "join_aggregate": "penstock.operators.aggregate.over_joins",
    "query_aggregate": "penstock.operators.aggregate.over_queries",
    "resample": "penstock.operators.resample",
    "sparksql": "penstock.operators.sparksql",
}


@cache
def view_of(operator: str) -> View:
    """What answers an operator's standing queries. Loaded on demand: workers answer nothing."""
    view: View = import_module(f"{OPERATORS[operator]}.view").VIEW
    return view
