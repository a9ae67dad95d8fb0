"""Names inside a join: which streams an expression reads columns of, and how a whole combination calls them."""

from __future__ import annotations

from sqlglot import exp

from penstock.expr.expression import Expr
from penstock.sql.kernel_expressions import lower
from penstock.sql.scope import BoundSource


def sources_in(node: exp.Expr) -> set[BoundSource]:
    return {column.meta["source"] for column in node.find_all(exp.Column)}


def qualified(node: exp.Expr) -> Expr:
    """The expression over whole combinations: every column as alias.column."""
    renamed = node.copy()
    for column in renamed.find_all(exp.Column):
        column.set("this", exp.Identifier(this=f"{column.meta['source'].alias}.{column.name}", quoted=True))
    return lower(renamed)
