"""Bind what a SELECT asks for: its list with `*` written out, the order of its rows, and how many of them."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.bound_trees import named_column, output_column
from penstock.sql.scope import BoundSource, Scope, SourceColumn, fold
from penstock.types import Field


def bind_select_list(
    binder: ExpressionBinder, select: exp.Select, scope: Scope
) -> tuple[list[exp.Expr | str], list[exp.Expr]]:
    """The SELECT list with `*` written out: originals (or names) and bound expressions."""
    originals: list[exp.Expr | str] = []
    items: list[exp.Expr] = []
    for item in select.expressions:
        star = _starred(binder, item, scope)
        if star is None:
            originals.append(item)
            items.append(binder.bind(item.this if isinstance(item, exp.Alias) else item, scope))
            continue
        for source, column in star:
            originals.append(column.name)
            items.append(named_column(source, column))
    if not items:
        binder.fail(select, error("syntax_error", detail="the SELECT asks for nothing"))
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        on = distinct.args["on"]
        keys = on.expressions if isinstance(on, exp.Tuple) else [on.unnest() if isinstance(on, exp.Paren) else on]
        distinct.set("on", exp.Tuple(expressions=[binder.bind(key, scope) for key in keys]))
    return originals, items


def _starred(binder: ExpressionBinder, item: exp.Expr, scope: Scope) -> list[tuple[BoundSource, SourceColumn]] | None:
    """The columns of `*`, `s.*` or `s.reading.*`; None for anything else."""
    everything = [(source, column) for source in scope.sources for column in source.columns]
    if isinstance(item, exp.Star):
        if any(item.args.get(key) for key in ("except_", "replace", "rename")):
            binder.fail(item, error("not_supported", feature="* EXCEPT or REPLACE"))
        if not scope.sources:
            binder.fail(item, error("syntax_error", detail="* needs a FROM"))
        return everything
    if not isinstance(item, exp.Column) or not isinstance(item.this, exp.Star):
        return None
    path = [fold(part) for part in item.parts[:-1]]
    for source in scope.sources:
        own = [pair for pair in everything if pair[0] is source]
        if path == [source.alias]:
            return own
        if source.stream_name is not None and path in ([source.stream_name], [source.alias, source.stream_name]):
            return [pair for pair in own if pair[1].origin == "stream"]
    binder.fail(item, scope.missing([*path, "*"]))


# -- ORDER BY, LIMIT and OFFSET


def bind_order(binder: ExpressionBinder, query: exp.Expr, scope: Scope, fields: list[Field]) -> None:
    order = query.args.get("order")
    if order is not None:
        items = [binder.ordered(item, scope, _output(binder, item, fields)) for item in order.expressions]
        query.set("order", exp.Order(expressions=items))


def _output(binder: ExpressionBinder, item: exp.Expr, fields: list[Field]) -> exp.Expr | None:
    """The output that an item of ORDER BY names, by its place or its name."""
    inner = item.this if isinstance(item, exp.Ordered) else item
    field: Field | None = None
    if isinstance(inner, exp.Literal) and inner.is_int:
        field = ordinal(binder, inner, fields)
    elif isinstance(inner, exp.Column) and len(inner.parts) == 1:
        field = next((f for f in fields if f.name == fold(inner.this)), None)
    return None if field is None else output_column(field.name, field.type)


def ordinal(binder: ExpressionBinder, node: exp.Literal, items: list[Any]) -> Any:
    """What ORDER BY 2 or GROUP BY 2 means."""
    place = int(node.name)
    if not 1 <= place <= len(items):
        binder.fail(node, error("syntax_error", detail=f"position {place} is not in the SELECT list"))
    return items[place - 1]


def bind_limits(binder: ExpressionBinder, query: exp.Expr) -> None:
    limit = query.args.get("limit")
    if isinstance(limit, exp.Fetch):
        limit = exp.Limit(expression=limit.args.get("count") or exp.Literal.number(1))
        query.set("limit", limit)
    for key, clause in (("limit", limit), ("offset", query.args.get("offset"))):
        if clause is None:
            continue
        count = clause.expression
        if isinstance(count, exp.Null) or count.name.upper() == "ALL":
            query.set(key, None)
        elif not (isinstance(count, exp.Literal) and count.is_int):
            binder.fail(count, error("type_mismatch", detail=f"{key.upper()} needs a whole number"))
