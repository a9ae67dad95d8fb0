"""The last look at a bound tree before it becomes Spark SQL: every node in it is one that the binder makes.

The binder refuses unlisted functions where they are written. This check does not trust it: a clause that some future
grammar leaves unbound fails here instead of reaching Spark.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.approximate import APPROXIMATE, ERROR
from penstock.sql.binding.coercion import RULES
from penstock.sql.functions import CALLS
from penstock.sql.nodes import (
    SIMILAR,
    BeginEnd,
    BeginEnds,
    Const,
    Duration,
    OwnWindow,
    SampleCondition,
    WindowEdge,
    WindowJoin,
    WindowJoins,
    WithinPercent,
)

_SELECTS = (exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.Values, exp.From, exp.Join, exp.Where)
_CLAUSES = (exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Distinct, exp.Tuple)
_GROUPS = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup)
_NAMES = (exp.Table, exp.TableAlias, exp.Alias, exp.Identifier, exp.Column, exp.Star, exp.Dot, exp.Var)
_VALUES = (Const, Duration, exp.Literal, exp.Boolean, exp.Null, exp.Placeholder, exp.Paren, exp.Bracket, exp.DataType)
_OPERATORS = (exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_MORE_OPERATORS = (exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Escape, exp.Exists)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.DPipe, exp.Concat)
_FORMS = (exp.Case, exp.If, exp.Cast, exp.Extract, exp.CurrentTimestamp, OwnWindow, SampleCondition)
# Clauses of our own, which hang on a SELECT and are not written into its text.
_OURS = (BeginEnds, BeginEnd, WindowEdge, WindowJoins, WindowJoin, WithinPercent)
_NODES = frozenset(RULES).union(
    _SELECTS, _CLAUSES, _GROUPS, _NAMES, _VALUES, _OPERATORS, _MORE_OPERATORS, _ARITHMETIC, _FORMS, _OURS
)
# Calls that the planner writes beside the listed ones.
_PLANNED = frozenset({"window", "struct", "max_by", "min_by", "any_value", SIMILAR, "regexp_replace_all"})


def check_nodes(root: exp.Expr) -> None:
    """Raise function_not_found or not_supported for what may not go to Spark."""
    for node in root.walk():
        if type(node) is exp.Anonymous:
            _check_call(node)
        elif type(node) not in _NODES:
            if isinstance(node, exp.Func):
                raise error("function_not_found", function=node.sql_name().lower())
            raise error("not_supported", feature=type(node).__name__)


def _check_call(node: exp.Anonymous) -> None:
    name = node.name.lower()
    if node.meta.get("user") or name in CALLS or name.removesuffix(ERROR) in APPROXIMATE or name in _PLANNED:
        return
    relation = isinstance(node.parent, exp.Table) and isinstance(node.expressions[0], exp.Placeholder)
    if name == "identifier" and relation and len(node.expressions) == 1:
        return  # the view of a relation, by a parameter
    raise error("function_not_found", function=name)
