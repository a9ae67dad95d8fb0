"""INSERT, UPDATE and DELETE of static rows and of rows of ordinary tables."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.sql.dialect import PenstockParser
from penstock.sql.positions import Span
from penstock.sql.statements import Assignment, Delete, Insert, Update


def insert(parser: PenstockParser) -> Insert:
    parser.need("INTO")
    table, at = parser.name("the name of a table")
    columns: tuple[tuple[str, Span], ...] | None = None
    if parser.peek("("):
        columns = parser.listed(lambda: parser.name("a column"))
    if parser.peek("SELECT") or parser.peek("WITH"):
        hint = "INSERT takes VALUES; to load a file use penstock load"
        raise parser.fail(error("not_supported", feature="INSERT ... SELECT", hint=hint))
    parser.need("VALUES")
    rows = parser.several(lambda: parser.listed(lambda: _value(parser)))
    return Insert(table, columns, rows, name_at=at)


def _value(parser: PenstockParser) -> exp.Expr:
    if parser.peek("DEFAULT"):
        token = parser.here
        parser.skip()
        return exp.Null().update_positions(token)
    return parser.value()


def update(parser: PenstockParser) -> Update:
    table, at = parser.name("the name of a table")
    alias = _alias(parser, "SET")
    parser.need("SET")
    assignments = parser.several(lambda: _assignment(parser))
    return Update(table, assignments, _where(parser), alias, name_at=at)


def _assignment(parser: PenstockParser) -> Assignment:
    name, at = parser.name("a column")
    if parser.take("."):
        name, at = parser.name("a column")
    parser.need("=")
    return Assignment(name, _value(parser), at)


def delete(parser: PenstockParser) -> Delete:
    parser.need("FROM")
    table, at = parser.name("the name of a table")
    return Delete(table, alias=_alias(parser, "WHERE"), where=_where(parser), name_at=at)


def _alias(parser: PenstockParser, following: str) -> str | None:
    if parser.take("AS") or not (parser.at_end() or parser.peek(following)):
        name, _ = parser.name(following)
        return name
    return None


def _where(parser: PenstockParser) -> exp.Expr | None:
    return parser.condition() if parser.take("WHERE") else None
