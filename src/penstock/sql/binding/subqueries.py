"""Bind a subquery where it stands in an expression: as a value, in EXISTS and in IN."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.coercion import Bound, Coercion
from penstock.sql.scope import Scope
from penstock.sql.values import typed
from penstock.types import BOOLEAN, Field


def bind_exists(binder: Coercion, node: exp.Exists, scope: Scope) -> Bound:
    inner = node.this.unnest() if isinstance(node.this, exp.Subquery) else node.this
    subquery_columns(binder, inner, scope, "exists")
    return typed(exp.Exists(this=inner), BOOLEAN)


def bind_scalar_subquery(binder: Coercion, node: exp.Expr, scope: Scope) -> Bound:
    inner = node.unnest() if isinstance(node, exp.Subquery) else node
    columns = subquery_columns(binder, inner, scope, "scalar")
    if len(columns) != 1:
        detail = f"a subquery used as a value has {len(columns)} columns instead of one"
        binder.fail(inner, error("type_mismatch", detail=detail))
    return typed(exp.Subquery(this=inner), columns[0].type)


def subquery_columns(binder: Coercion, query: exp.Expr, scope: Scope, role: str) -> list[Field]:
    if binder.subquery is None or not isinstance(query, exp.Query):
        binder.fail(query, error("not_supported", feature="a subquery here"))
    return binder.subquery(query, scope, role)
