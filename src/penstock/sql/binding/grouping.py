"""Aggregation: every column outside an aggregate has to be grouped by."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.nodes import Const, OwnWindow
from penstock.sql.positions import point, span_of
from penstock.sql.scope import Scope


def check_grouping(select: exp.Select, scope: Scope, text: str) -> bool:
    """Whether the SELECT aggregates. Raises grouping_error for a column that is neither grouped nor aggregated."""
    group = select.args.get("group")
    having = select.args.get("having")
    order = select.args.get("order")
    parts: list[exp.Expr] = [item.this for item in select.expressions]
    parts += [having.this] if having is not None else []
    parts += [item.this for item in order.expressions] if order is not None else []
    if group is None and having is None and not any(_aggregates(part) for part in parts):
        return False
    keys = list(group.expressions) if group is not None else []
    if group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None:
        return True
    for part in parts:
        _check(part, keys, scope, text)
    return True


def _aggregates(node: exp.Expr) -> bool:
    if isinstance(node, exp.Query):
        return False
    if is_aggregate(node) and not isinstance(node.parent, exp.Window):
        return True
    return any(_aggregates(child) for child in node.iter_expressions())


def _check(node: exp.Expr, keys: list[exp.Expr], scope: Scope, text: str) -> None:
    if node in keys or isinstance(node, Const | exp.Query):
        return
    inner = node
    while isinstance(inner, exp.Filter | exp.WithinGroup | OwnWindow):
        inner = inner.this
    if is_aggregate(inner) and not isinstance(node.parent, exp.Window):
        return
    for name, meaning in scope.combination.items():
        if node == meaning:
            _refuse(name, node, text)
    if isinstance(node, exp.Column):
        source = node.meta.get("source")
        if source is not None and source in scope.sources:
            _refuse(f"{node.table}.{node.name}", node, text)
        return
    for child in node.iter_expressions():
        _check(child, keys, scope, text)


def _refuse(name: str, node: exp.Expr, text: str) -> NoReturn:
    hint = f"add {name} to GROUP BY, or take MAX({name})"
    failure = error("grouping_error", detail=f"{name} is neither grouped nor aggregated", hint=hint)
    raise point(failure, text, span_of(node))
