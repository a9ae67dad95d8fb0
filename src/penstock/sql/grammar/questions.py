"""SELECT, CREATE QUERY, ALTER QUERY, SUBSCRIBE, SHOW, DESCRIBE and EXPLAIN."""

from __future__ import annotations

from penstock.errors import error, suggest
from penstock.sql.dialect import PenstockParser
from penstock.sql.positions import Span
from penstock.sql.statements import (
    AlterQuery,
    CreateQuery,
    Describe,
    Explain,
    PauseQuery,
    ResumeQuery,
    Select,
    Show,
    Source,
    Subscribe,
)

SHOWN = ("TABLES", "QUERIES", "STREAM TYPES", "FUNCTIONS", "SENSORS", "CYCLES", "STREAMS", "SETTINGS")


def select(parser: PenstockParser) -> Select:
    first = parser.here
    query = parser.question()
    span = Span(first.start, parser.last.end + 1)
    return Select(query, parser.parameters.substituted(parser.sql, span), source=Source(parser.sql, span))


def create_query(parser: PenstockParser) -> CreateQuery:
    if_not_exists = parser.take("IF", "NOT", "EXISTS")
    name, at = parser.name("the name of the query")
    parser.need("AS")
    return CreateQuery(name, select(parser), if_not_exists, name_at=at)


def alter_query(parser: PenstockParser) -> AlterQuery | PauseQuery | ResumeQuery:
    name, at = parser.name("the name of a query")
    if parser.take("PAUSE"):
        return PauseQuery(name, name_at=at)
    if parser.take("RESUME"):
        return ResumeQuery(name, name_at=at)
    if not parser.take("SET"):
        raise parser.expected("SET BEGIN (..), PAUSE or RESUME")
    begin = end = None
    if parser.peek("BEGIN"):
        first = parser.here
        parser.skip()
        begin = _bound_text(parser, rows=True)
        if first.text.upper() == "BEGIN" and parser.take("END"):
            end = _bound_text(parser, rows=False)
    elif parser.take("END"):
        end = _bound_text(parser, rows=False)
    else:
        raise parser.expected("BEGIN (..) or END (..)")
    return AlterQuery(name, begin, end, name_at=at)


def _bound_text(parser: PenstockParser, rows: bool) -> str:
    """The text of one end, without its parentheses, after checking that it is one."""
    first = parser.here
    if rows and (parser.peek("LAST") or parser.peek("(", "LAST")):
        opened = parser.take("(")
        parser.need("LAST")
        parser.integer("a number of rows")
        if not parser.take("ROWS"):
            parser.need("ROW")
        parser.take("PER", "SENSOR")
        if opened:
            parser.need(")")
    else:
        parser.edge()
    text = parser.parameters.substituted(parser.sql, Span(first.start, parser.last.end + 1))
    return text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text


def subscribe(parser: PenstockParser) -> Subscribe:
    parser.take("TO")
    name, at = parser.name("the name of a query")
    changes, from_cycle = False, None
    while not parser.at_end():
        if parser.take("WITH", "CHANGES"):
            changes = True
        elif parser.take("FROM", "CYCLE"):
            from_cycle = parser.integer("a cycle's number")
        else:
            raise parser.expected("WITH CHANGES, FROM CYCLE n or the end of the statement")
    return Subscribe(name, changes, from_cycle, name_at=at)


def show(parser: PenstockParser) -> Show:
    for what in SHOWN:
        if parser.take(*what.split()):
            table = None
            at = None
            if parser.take("FROM") or parser.take("OF") or parser.take("IN"):
                table, at = parser.name("the name of a table")
            return Show(what.lower(), table, name_at=at)
    hint = suggest(parser.here.text, [what.lower() for what in SHOWN]) or "SHOW can list " + ", ".join(SHOWN)
    raise parser.fail(error("syntax_error", detail=f'there is nothing called "{parser.here.text}" to show', hint=hint))


def describe(parser: PenstockParser) -> Describe:
    for word in ("TABLE", "QUERY", "FUNCTION"):
        parser.take(word)
    parser.take("STREAM", "TYPE")
    name, at = parser.name("a name")
    while parser.take("."):
        part, _ = parser.name("a name")
        name = f"{name}.{part}"
    return Describe(name, name_at=at)


def explain(parser: PenstockParser) -> Explain:
    analyze = parser.take("ANALYZE") or parser.take("ANALYSE")
    if parser.peek("SELECT") or parser.peek("WITH") or parser.peek("("):
        return Explain(select(parser), analyze)
    parser.take("QUERY")
    name, at = parser.name("the name of a query, or a SELECT")
    return Explain(name, analyze, name_at=at)
