"""The operators. `Plan.operator` names one; its package has the parts that other packages load by that name.

A new operator is a package and one line here: docs/internals/new-operator.md.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

OPERATORS: dict[str, str] = {
    "select": "penstock.operators.select",
    "join": "penstock.operators.join",
    "aggregate": "penstock.operators.aggregate",
    "join_aggregate": "penstock.operators.aggregate.over_joins",
    "query_aggregate": "penstock.operators.aggregate.over_queries",
    "resample": "penstock.operators.resample",
    "window_functions": "penstock.operators.window_functions",
    "union": "penstock.operators.union",
    "union_aggregate": "penstock.operators.union.aggregates",
    "sparksql": "penstock.operators.sparksql",
}


# Plans of questions that are asked once and are never those of a standing query; they have a part `once` alone.
ASKED_ONCE: dict[str, str] = {"tree": "penstock.operators.aggregate.trees"}


@cache
def part_of(operator: str, part: str) -> ModuleType:
    """A module of an operator's package. Loaded on demand: workers, for example, answer nothing."""
    return import_module(f"{OPERATORS.get(operator) or ASKED_ONCE[operator]}.{part}")


def operators_with(part: str) -> list[str]:
    """The operators with a module of this name in their package."""
    return _with(part, tuple(OPERATORS.items()))


def asked_without_spark() -> list[str]:
    """The operators that can answer something without Spark SQL that nothing is kept for."""
    return [*operators_with("once"), *ASKED_ONCE]


@cache
def _with(part: str, operators: tuple[tuple[str, str], ...]) -> list[str]:
    return [operator for operator, package in operators if find_spec(f"{package}.{part}") is not None]
