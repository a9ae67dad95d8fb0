"""CREATE SINK and ALTER SINK."""

from __future__ import annotations

from penstock.sql.dialect import PenstockParser
from penstock.sql.grammar.definitions import option
from penstock.sql.statements import AlterSink, CreateSink, StatementOption


def create_sink(parser: PenstockParser) -> CreateSink:
    if_not_exists = parser.take("IF", "NOT", "EXISTS")
    name, at = parser.name("the name of the sink")
    parser.need("FOR")
    parser.take("QUERY")
    query, query_at = parser.name("the name of a query")
    parser.need("TO")
    kind, kind_at = parser.name("a kind of sink, such as webhook")
    options: tuple[StatementOption, ...] = ()
    if parser.peek("(") and not parser.take("(", ")"):
        options = parser.listed(lambda: option(parser))
    return CreateSink(name, query, kind, options, if_not_exists, query_at, kind_at, name_at=at)


def alter_sink(parser: PenstockParser) -> AlterSink:
    name, at = parser.name("the name of a sink")
    if parser.take("PAUSE"):
        return AlterSink(name, True, name_at=at)
    if parser.take("RESUME"):
        return AlterSink(name, False, name_at=at)
    raise parser.expected("PAUSE or RESUME")
