"""Bind what stands behind a question's rows: ORDER BY, named windows, LIMIT and OFFSET."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.scope import Scope, fold
from penstock.sql.values import typed
from penstock.types import Field


class OrderBinder:
    """Binds the order of rows and how many of them are wanted."""

    def __init__(self, expressions: ExpressionBinder) -> None:
        self._expressions = expressions

    def bind_order(self, select: exp.Select, scope: Scope, fields: list[Field]) -> None:
        order = select.args.get("order")
        if order is not None:
            expressions = [self._ordered(item, scope, fields) for item in order.expressions]
            select.set("order", exp.Order(expressions=expressions))

    def bind_order_by_outputs(self, query: exp.Expr, fields: list[Field]) -> None:
        order = query.args.get("order")
        if order is None:
            return
        scope = Scope()
        for field in fields:
            scope.named[field.name] = _output(field)
        query.set("order", exp.Order(expressions=[self._ordered(item, scope, fields) for item in order.expressions]))

    def _ordered(self, item: exp.Expr, scope: Scope, fields: list[Field]) -> exp.Expr:
        inner = item.this if isinstance(item, exp.Ordered) else item
        bound: exp.Expr | None = None
        if isinstance(inner, exp.Literal) and inner.is_int:
            bound = _output(self.ordinal(inner, fields))
        elif isinstance(inner, exp.Column) and len(inner.parts) == 1:
            field = next((f for f in fields if f.name == fold(inner.this)), None)
            bound = _output(field) if field is not None else None
        result = exp.Ordered(this=bound if bound is not None else self._expressions.bind(inner, scope))
        result.set("desc", bool(item.args.get("desc")) if isinstance(item, exp.Ordered) else False)
        result.set("nulls_first", item.args.get("nulls_first") if isinstance(item, exp.Ordered) else False)
        return result

    def ordinal(self, node: exp.Literal, items: list[Any]) -> Any:
        place = int(node.name)
        if not 1 <= place <= len(items):
            detail = f"position {place} is not in the SELECT list"
            self._expressions.fail(node, error("syntax_error", detail=detail))
        return items[place - 1]

    def bind_named_windows(self, select: exp.Select, scope: Scope) -> None:
        for window in select.args.get("windows") or []:
            window.set(
                "partition_by", [self._expressions.bind(e, scope) for e in window.args.get("partition_by") or []]
            )
            order = window.args.get("order")
            if order is not None:
                ordered = [self._expressions.ordered(e, scope) for e in order.expressions]
                window.set("order", exp.Order(expressions=ordered))
            self._expressions.check_frame(window)

    def bind_limits(self, query: exp.Expr) -> None:
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
                failure = error("type_mismatch", detail=f"{key.upper()} needs a whole number")
                self._expressions.fail(count, failure)


def _output(field: Field) -> exp.Expr:
    return typed(exp.Column(this=exp.Identifier(this=field.name, quoted=True)), field.type)
