"""A text of Spark SQL as Spark's own parser reads it: what `sql.spark.text_check` checks with sqlglot, once more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from pyspark.sql import SparkSession

from penstock.sql.spark.text import NOW
from penstock.sql.spark.text_check import known_functions, refused

_CATALYST = "org.apache.spark.sql.catalyst."
# Nodes of a plan that select, combine and name rows. None of them reads, runs or changes anything.
_NODES = frozenset(
    f"{_CATALYST}{name}"
    for name in (
        "plans.logical.Aggregate",
        "plans.logical.Deduplicate",
        "plans.logical.Distinct",
        "plans.logical.Except",
        "plans.logical.Filter",
        "plans.logical.GlobalLimit",
        "plans.logical.Intersect",
        "plans.logical.Join",
        "plans.logical.LocalLimit",
        "plans.logical.LocalRelation",
        "plans.logical.Offset",
        "plans.logical.OneRowRelation",
        "plans.logical.Project",
        "plans.logical.Sort",
        "plans.logical.SubqueryAlias",
        "plans.logical.Union",
        "plans.logical.WithWindowDefinition",
        "analysis.NamedParameter",
        "analysis.PlanWithUnresolvedIdentifier",
        "analysis.UnresolvedAlias",
        "analysis.UnresolvedAttribute",
        "analysis.UnresolvedExtractValue",
        "analysis.UnresolvedFunction",
        "analysis.UnresolvedHaving",
        "analysis.UnresolvedInlineTable",
        "analysis.UnresolvedOrdinal",
        "analysis.UnresolvedStar",
        "analysis.UnresolvedSubqueryColumnAliases",
    )
)
_EXPRESSIONS = f"{_CATALYST}expressions."
_BETWEEN = "between"  # Spark parses x BETWEEN a AND b as a call
_FUNCTION = f"{_CATALYST}analysis.UnresolvedFunction"
_RELATION = f"{_CATALYST}analysis.PlanWithUnresolvedIdentifier"
_PARAMETER = f"{_CATALYST}analysis.NamedParameter"


def check_parsed(spark: SparkSession, text: str, relations: tuple[str, ...], functions: tuple[str, ...]) -> None:
    """Raise `spark_text_refused` where the plan that Spark parses is not one query of these relations and functions."""
    check_nodes(parse(spark, text), relations, functions)


def parse(spark: SparkSession, text: str) -> list[Any]:
    """The plan that Spark's parser makes of a text, in JSON."""
    # In a thread without an active session the parser has the settings of none: it would replace ${...}.
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    plan: list[Any] = orjson.loads(spark._jsparkSession.sessionState().sqlParser().parsePlan(text).toJSON())
    return plan


def check_nodes(plan: list[Any], relations: tuple[str, ...], functions: tuple[str, ...]) -> None:
    """The same for a parsed plan as Spark writes it in JSON."""
    own = (function.lower() for function in functions)
    callable_names = {f"[{name}]" for name in (*known_functions(), *own, _BETWEEN)}
    named: set[str] = set()
    for node in nodes_of(plan):
        kind = node["class"]
        if kind == _FUNCTION:
            if node["nameParts"].lower() not in callable_names:
                raise refused(f"it calls {node['nameParts']}")
        elif kind == _RELATION:
            named.update(_named(node["identifierExpr"]))
        elif kind == _PARAMETER:
            if node["name"] not in (NOW, *relations):
                raise refused(f'it has a parameter "{node["name"]}"')
        elif kind not in _NODES and not kind.startswith(_EXPRESSIONS):
            raise refused(f"it has {kind.rsplit('.', 1)[-1]}")
    if named != set(relations):
        raise refused(f"it reads {sorted(named)} instead of {sorted(relations)}")


def nodes_of(found: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a plan in JSON, its expressions and their subqueries included."""
    waiting = [found]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "class" in item:
                yield item
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list):
            waiting.extend(reversed(item))


def _named(identifier: list[dict[str, Any]]) -> Iterator[str]:
    """The parameter that names a relation; anything else would be a name that the text computes."""
    if len(identifier) != 1 or identifier[0]["class"] != _PARAMETER:
        raise refused("it computes the name of a table")
    yield identifier[0]["name"]
