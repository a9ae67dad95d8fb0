"""SELECT, SUBSCRIBE, SHOW, DESCRIBE, EXPLAIN and CANCEL STATEMENT."""

from __future__ import annotations

from typing import Literal

from sqlglot.tokenizer_core import Token

from penstock.errors import error, suggest
from penstock.sql.dialect import PenstockParser
from penstock.sql.nodes import WindowEdge
from penstock.sql.positions import Span, span_of_token
from penstock.sql.statements import AsOf, CancelStatement, Describe, Explain, Select, Show, SourceText, Subscribe

SHOWN = tuple(
    "TABLES, QUERIES, STREAM TYPES, FUNCTIONS, AGGREGATES, SENSORS, CYCLES, STREAMS, ROLLUPS, INPUTS, "
    "SINKS, STATEMENTS, SERVICES, SETTINGS, USERS, TOKENS".split(", ")
)


def select(parser: PenstockParser) -> Select:
    first = parser.here
    query = parser.question()
    span = Span(first.start, parser.last.end + 1)
    text = parser.parameters.substituted(parser.sql, span)
    final = next(iter(parser.finals.values()), None)
    final_at = span_of_token(final) if final is not None else None
    return Select(query, text, past_moment(parser), final_at, source=SourceText(parser.sql, span))


def past_moment(parser: PenstockParser) -> AsOf | None:
    """The AS OF of a question."""
    found = list(parser.moments.values())
    if len(found) > 1:
        raise parser.fail(error("not_supported", feature="AS OF more than once"), found[1][0])
    if not found:
        return None
    token, moment = found[0]
    return as_of(parser, token, moment)


def as_of(parser: PenstockParser, token: Token, moment: WindowEdge | int) -> AsOf:
    at = span_of_token(token)
    if isinstance(moment, int):
        return AsOf(cycle=moment, at=at)
    anchor, offset = moment.args["anchor"], int(moment.args["offset"])
    if anchor == "constant":
        return AsOf(time_us=offset, at=at)
    if anchor == "now" and offset <= 0:
        return AsOf(offset_us=offset, at=at)
    hint = "write a time, NOW - 10 MINUTES or CYCLE 4711"
    raise parser.fail(error("invalid_window", detail="AS OF wants a moment that has been", hint=hint), token)


def subscribe(parser: PenstockParser) -> Subscribe:
    parser.take("TO")
    name, at = parser.name("the name of a query")
    changes, from_cycle, final = False, None, None
    while not parser.at_end():
        here = parser.here
        if parser.take("FINAL"):
            final = span_of_token(here)
        elif parser.take("WITH", "CHANGES"):
            changes = True
        elif parser.take("FROM", "CYCLE"):
            from_cycle = parser.integer("a cycle's number")
        else:
            raise parser.expected("FINAL, WITH CHANGES, FROM CYCLE n or the end of the statement")
    return Subscribe(name, changes, from_cycle, final, name_at=at)


def show(parser: PenstockParser) -> Show:
    for what in SHOWN:
        if parser.take(*what.split()):
            table = None
            at = None
            if parser.take("FROM") or parser.take("OF") or parser.take("IN"):
                table, at = parser.name("the name of a table")
            like = parser.text_literal("a pattern in quotes") if parser.take("LIKE") else None
            return Show(what.lower(), table, like, name_at=at)
    hint = suggest(parser.here.text, [what.lower() for what in SHOWN]) or "SHOW can list " + ", ".join(SHOWN)
    raise parser.fail(error("syntax_error", detail=f'there is nothing called "{parser.here.text}" to show', hint=hint))


def cancel_statement(parser: PenstockParser) -> CancelStatement:
    first = parser.here
    statement_id = parser.text_literal("the id of a statement in quotes")
    return CancelStatement(statement_id, name_at=span_of_token(first))


def describe(parser: PenstockParser) -> Describe:
    kind: Literal["function", "stream_type"] | None = None
    if parser.take("FUNCTION") or parser.take("AGGREGATE"):
        kind = "function"
    elif parser.take("STREAM", "TYPE"):
        kind = "stream_type"
    else:
        for word in ("TABLE", "QUERY", "ROLLUP"):
            parser.take(word)
    name, at = parser.name("a name")
    while parser.take("."):
        part, _ = parser.name("a name")
        name = f"{name}.{part}"
    return Describe(name, kind, name_at=at)


def explain(parser: PenstockParser) -> Explain:
    analyze = parser.take("ANALYZE") or parser.take("ANALYSE")
    if parser.peek("SELECT") or parser.peek("WITH") or parser.peek("("):
        return Explain(select(parser), analyze)
    if not parser.take("ROLLUP"):
        parser.take("QUERY")
    name, at = parser.name("the name of a query or a rollup, or a SELECT")
    return Explain(name, analyze, name_at=at)
