"""CREATE ROLLUP."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import error
from penstock.sql.cursor import UnexpectedToken
from penstock.sql.dialect import PenstockParser
from penstock.sql.positions import Span, point, span_of, span_of_token
from penstock.sql.statements import CreateRollup, Select, SourceText, TierClause

_YEAR_US = 365 * 86_400_000_000


def create_rollup(parser: PenstockParser) -> CreateRollup:
    """`name ON table AS SELECT keys, aggregates [WHERE ..] GROUP BY keys EVERY d KEEP d, ...`"""
    if_not_exists = parser.take("IF", "NOT", "EXISTS")
    name, at = parser.name("the name of the rollup")
    parser.need("ON")
    source = parser.here
    table, table_at = parser.name("the name of a sensor table")
    parser.need("AS")
    select = _select(parser, table, source)
    tiers = [_tier(parser)]
    while parser.take(","):
        tiers.append(_tier(parser))
    return CreateRollup(name, table, select, tuple(tiers), if_not_exists, table_at=table_at, name_at=at)


def _select(parser: PenstockParser, table: str, named: Token) -> Select:
    """The question up to EVERY, which sqlglot would take for a name; ON has said what it is about."""
    tokens = parser.before("EVERY")
    if not tokens:
        raise parser.expected("a SELECT")
    inner = PenstockParser(parser.sql, parser.parameters)
    inner.load(tokens)
    query = inner.question()
    if not inner.at_end():
        raise UnexpectedToken("unexpected", inner.here)
    if not isinstance(query, exp.Select):
        raise parser.fail(error("syntax_error", detail="expected one SELECT"), tokens[0])
    clause = query.args.get("from_")
    if clause is not None:
        hint = f"leave it out: ON says that the rollup is about {table}"
        failure = error("invalid_definition", detail="the SELECT of a rollup has no FROM", hint=hint)
        raise point(failure, parser.sql, span_of(clause))
    identifier = exp.Identifier(this=table, quoted=True)
    identifier.update_positions(named)
    query.set("from_", exp.From(this=exp.Table(this=identifier)))
    parser.skip(len(tokens))
    span = Span(tokens[0].start, tokens[-1].end + 1)
    return Select(query, parser.parameters.substituted(parser.sql, span), source=SourceText(parser.sql, span))


def _tier(parser: PenstockParser) -> TierClause:
    first = parser.here
    parser.need("EVERY")
    every = parser.duration()
    every_at = Span(first.start, parser.last.end + 1)
    first = parser.here
    if not parser.take("KEEP"):
        return TierClause(every, None, every_at, every_at)
    keep = None if parser.take("FOREVER") or parser.take("FOR", "EVER") else _keep(parser)
    return TierClause(every, keep, every_at, Span(first.start, parser.last.end + 1))


def _keep(parser: PenstockParser) -> int:
    """A duration; here also so many years, of 365 days."""
    here = parser.here
    if here.token_type == TokenType.NUMBER and here.text.isdigit():
        parser.skip()
        if parser.take("YEAR") or parser.take("YEARS"):
            return int(here.text) * _YEAR_US
        if parser.peek("MONTH") or parser.peek("MONTHS"):
            hint = f"months differ: write {30 * int(here.text)} DAYS"
            failure = error("invalid_duration", text=f"{here.text} {parser.here.text}", hint=hint)
            raise point(failure, parser.sql, Span(span_of_token(here).start, span_of_token(parser.here).end))
        parser.back()
    return parser.duration()
