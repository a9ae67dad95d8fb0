"""Parts of bound trees: references to columns, and conditions that AND connects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.sql.scope import BoundSource, SourceColumn
from penstock.sql.values import typed
from penstock.types import BIGINT, BOOLEAN, TIMESTAMP, Type


def quoted(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)


def alias_of(source: BoundSource) -> exp.TableAlias:
    return exp.TableAlias(this=quoted(source.alias))


def output_column(name: str, type_: Type) -> exp.Expr:
    """A bound reference to what stands for an expression elsewhere: an output, a key, the value of an aggregate."""
    return typed(exp.Column(this=quoted(name)), type_)


def column_of(source: BoundSource, column: SourceColumn) -> exp.Expr:
    """A bound reference to a column of a source."""
    node = hidden_column(source, column.name, column.type)
    node.meta["origin"] = column.origin
    return node


def named_column(source: BoundSource, column: SourceColumn) -> exp.Expr:
    """The same where a question names the column: one of a reading makes the source a stream."""
    source.needs_stream = source.needs_stream or column.origin in ("stream", "time")
    return column_of(source, column)


def time_of(source: BoundSource) -> exp.Expr:
    """A bound reference to a stream's time."""
    return column_of(source, SourceColumn(TIME_COLUMN, TIMESTAMP, "time"))


def hidden_column(source: BoundSource, name: str, type_: Type = BIGINT) -> exp.Expr:
    """A bound reference to a column that users do not name."""
    node = exp.Column(this=quoted(name), table=quoted(source.alias))
    node.meta["source"] = source
    return typed(node, type_)


def sources_in(node: exp.Expr) -> set[BoundSource]:
    """The sources that an expression reads columns of."""
    return {column.meta["source"] for column in node.find_all(exp.Column)}


def branches(query: exp.Expr) -> list[exp.Expr]:
    """The SELECTs that UNION and its relatives combine, in order; of a SELECT itself."""
    if isinstance(query, exp.Subquery):
        return branches(query.this)
    if isinstance(query, exp.SetOperation):
        return [*branches(query.left), *branches(query.right)]
    return [query]


def window_functions(tree: exp.Expr) -> list[exp.Window]:
    """The window functions that an expression has itself, not those of its subqueries."""
    return [node for node in tree.walk(prune=lambda n: isinstance(n, exp.Query)) if isinstance(node, exp.Window)]


def call_of(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def micros_of(time: exp.Expr) -> exp.Expr:
    """The microseconds of a time."""
    return typed(call_of("unix_micros", time), BIGINT)


def both(left: exp.Expr | None, right: exp.Expr) -> exp.Expr:
    """left AND right, or the right one alone."""
    return right if left is None else typed(exp.And(this=_grouped(left), expression=right), BOOLEAN)


def conjunction(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """Conditions that AND connects, at least one."""
    return reduce(both, map(_grouped, conditions))


def _grouped(condition: exp.Expr) -> exp.Expr:
    """A condition as it can stand beside AND."""
    return typed(exp.Paren(this=condition), BOOLEAN) if isinstance(condition, exp.Or) else condition


def conjuncts(where: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND connects, in order."""
    if where is None:
        return []
    if isinstance(where, exp.Where | exp.Paren):
        return conjuncts(where.this)
    terms: list[exp.Expr] = []
    while isinstance(where, exp.And):  # a long chain leans to the left
        terms = [*conjuncts(where.expression), *terms]
        where = where.this
    return [*conjuncts(where), *terms] if terms else [where]
