"""References to what no user names: hidden columns, and the quoted alias of a source."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.scope import BoundSource
from penstock.sql.values import typed
from penstock.types import BIGINT, TIMESTAMP


def alias_of(source: BoundSource) -> exp.TableAlias:
    return exp.TableAlias(this=exp.Identifier(this=source.alias, quoted=True))


def hidden_column(source: BoundSource, name: str) -> exp.Expr:
    node = exp.Column(this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=source.alias, quoted=True))
    node.meta["source"] = source
    return typed(node, TIMESTAMP if name == "ts" else BIGINT)
