"""Bind a SELECT list: `*` written out, every expression with its type."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.expressions import ExpressionBinder
from penstock.sql.scope import BoundSource, Scope, SourceColumn, fold
from penstock.sql.values import typed
from penstock.types import Field


class SelectListBinder:
    """Binds what a SELECT asks for."""

    def __init__(self, expressions: ExpressionBinder) -> None:
        self._expressions = expressions

    def bind(self, select: exp.Select, scope: Scope) -> tuple[list[exp.Expr | str], list[exp.Expr]]:
        """The SELECT list with `*` written out: originals (or names) and bound expressions."""
        originals: list[exp.Expr | str] = []
        items: list[exp.Expr] = []
        for item in select.expressions:
            star = self._starred(item, scope)
            if star is not None:
                for source, column in star:
                    originals.append(column.name)
                    items.append(self._column(source, column))
                continue
            inner = item.this if isinstance(item, exp.Alias) else item
            bound = self._expressions.bind(inner, scope)
            originals.append(item)
            items.append(bound)
        if not items:
            self._expressions.fail(select, error("syntax_error", detail="the SELECT asks for nothing"))
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            on = distinct.args["on"]
            keys = on.expressions if isinstance(on, exp.Tuple) else [on.unnest() if isinstance(on, exp.Paren) else on]
            distinct.set("on", exp.Tuple(expressions=[self._expressions.bind(key, scope) for key in keys]))
        return originals, items

    def _starred(self, item: exp.Expr, scope: Scope) -> list[tuple[BoundSource, SourceColumn]] | None:
        """The columns of `*`, `s.*` or `s.reading.*`; None for anything else."""
        if isinstance(item, exp.Star):
            if any(item.args.get(key) for key in ("except_", "replace", "rename")):
                self._expressions.fail(item, error("not_supported", feature="* EXCEPT or REPLACE"))
            if not scope.sources:
                self._expressions.fail(item, error("syntax_error", detail="* needs a FROM"))
            return [pair for source in scope.sources for pair in _columns_of(source)]
        if not isinstance(item, exp.Column) or not isinstance(item.this, exp.Star):
            return None
        path = [fold(part) for part in item.parts[:-1]]
        for source in scope.sources:
            if path == [source.alias]:
                return _columns_of(source)
            if source.stream_name is not None and path in ([source.stream_name], [source.alias, source.stream_name]):
                return [pair for pair in _columns_of(source) if pair[1].origin == "stream"]
        self._expressions.fail(item, scope.missing([*path, "*"]))

    def _column(self, source: BoundSource, column: SourceColumn) -> exp.Expr:
        if column.origin in ("stream", "time"):
            source.needs_stream = True
        return column_node(source, column)


def column_node(source: BoundSource, column: SourceColumn) -> exp.Expr:
    """A bound reference to a column of a source."""
    node = exp.Column(
        this=exp.Identifier(this=column.name, quoted=True), table=exp.Identifier(this=source.alias, quoted=True)
    )
    node.meta["source"] = source
    node.meta["origin"] = column.origin
    return typed(node, column.type)


def _columns_of(source: BoundSource) -> list[tuple[BoundSource, SourceColumn]]:
    return [(source, column) for column in source.columns]


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
