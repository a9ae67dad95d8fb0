"""CREATE QUERY, CREATE ROLLUP and CREATE SINK, what changes them, and SET on_error."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.catalog.model import PRIORITIES, STRATEGIES
from penstock.errors import error, suggest
from penstock.sql import statements as st
from penstock.sql.cursor import UnexpectedToken
from penstock.sql.dialect import PenstockParser
from penstock.sql.grammar.definitions import option
from penstock.sql.grammar.questions import select
from penstock.sql.positions import Span, point, span_of, span_of_token

STRATEGY_WORDS = (*STRATEGIES, "auto")
_ON_ERROR: dict[str, st.OnError] = {"none": "none", "rest": "rest"}


def create_query(parser: PenstockParser) -> st.CreateQuery:
    if_not_exists, name, at = parser.new_name("query")
    options: tuple[st.StatementOption, ...] = ()
    if parser.take("WITH"):
        options = parser.listed(lambda: option(parser))
    keep_us, keep_at, first = None, None, parser.here
    if parser.take("KEEP"):
        keep_us, keep_at = parser.duration(), Span(first.start, parser.last.end + 1)
        if keep_us <= 0:
            failure = error("invalid_window", detail="KEEP is longer than nothing", hint="write KEEP 2 HOURS")
            raise point(failure, parser.sql, keep_at)
    parser.need("AS")
    return st.CreateQuery(name, select(parser), if_not_exists, options, keep_us, keep_at, name_at=at)


def alter_query(parser: PenstockParser) -> st.AlterQuery | st.PauseQuery | st.ResumeQuery | st.DescribeQuery:
    name, at = parser.name("the name of a query")
    if parser.take("PAUSE"):
        return st.PauseQuery(name, name_at=at)
    if parser.take("RESUME"):
        return st.ResumeQuery(name, name_at=at)
    if parser.take("OWNER"):
        parser.need("TO")
        return st.DescribeQuery(name, "owner", parser.name_or_text("the name of an owner"), name_at=at)
    if not parser.take("SET"):
        raise parser.expected("SET BEGIN (..), SET STRATEGY, SET PRIORITY, OWNER TO, PAUSE or RESUME")
    if parser.take("STRATEGY"):
        return st.DescribeQuery(name, "strategy", _strategy(parser), name_at=at)
    if parser.take("PRIORITY"):
        return st.DescribeQuery(name, "priority", _priority(parser), name_at=at)
    begin = end = stream = None
    begin_at = end_at = stream_at = None
    if parser.peek("BEGIN"):
        first = parser.here
        parser.skip()
        begin, begin_at = _bound_text(parser, rows=True)
        if first.text.upper() == "BEGIN" and parser.take("END"):
            end, end_at = _bound_text(parser, rows=False)
    elif parser.take("END"):
        end, end_at = _bound_text(parser, rows=False)
    else:
        raise parser.expected("BEGIN (..), END (..), STRATEGY or PRIORITY")
    if parser.take("FOR"):
        stream, stream_at = parser.name("the name of a stream")
    return st.AlterQuery(name, begin, end, stream, begin_at, end_at, stream_at, name_at=at)


def comment_on(parser: PenstockParser) -> st.DescribeQuery:
    if not parser.take("QUERY"):
        raise parser.expected("QUERY")
    name, at = parser.name("the name of a query")
    parser.need("IS")
    text = None if parser.take("NULL") else parser.text_literal("a text in quotes, or NULL")
    return st.DescribeQuery(name, "description", text or None, name_at=at)


def set_on_error(parser: PenstockParser) -> st.SetOnError:
    first = parser.here
    name, at = parser.name("on_error")
    if name != "on_error":
        hint = suggest(name, ["on_error"]) or "settings of a server are given when it starts"
        raise parser.fail(error("not_supported", feature=f"SET {name}", hint=hint), first)
    if not parser.take("TO"):
        parser.need("=")
    here = parser.here
    word = parser.name_or_text("none or rest").lower()
    if word not in _ON_ERROR:
        hint = suggest(word, _ON_ERROR) or "none or rest: what is registered when a query of many is refused"
        raise parser.fail(error("invalid_option", option=name, detail=f'"{word}" is not none or rest', hint=hint), here)
    return st.SetOnError(_ON_ERROR[word], name_at=at)


def _strategy(parser: PenstockParser) -> str | None:
    here = parser.here
    parser.take("=")
    with parser.pointing(here):
        return strategy_named(parser.name_or_text(", ".join(STRATEGY_WORDS)).lower())


def strategy_named(text: str) -> str | None:
    """A strategy as definitions store it: None for `auto`. Raises invalid_option."""
    word = text.lower()
    if word not in STRATEGY_WORDS:
        hint = suggest(text, STRATEGY_WORDS) or "strategies are " + ", ".join(STRATEGY_WORDS)
        raise error("invalid_option", option="strategy", detail=f'"{text}" is not a strategy', hint=hint)
    return None if word == "auto" else word


def _priority(parser: PenstockParser) -> str:
    here = parser.here
    parser.take("=")
    with parser.pointing(here):
        return priority_named(parser.name_or_text(", ".join(PRIORITIES)))


def priority_named(text: str) -> str:
    """A class of queries as definitions store it. Raises invalid_option."""
    word = text.lower()
    if word not in PRIORITIES:
        hint = suggest(text, PRIORITIES) or "priorities are " + ", ".join(PRIORITIES)
        raise error("invalid_option", option="priority", detail=f'"{text}" is not a priority', hint=hint)
    return word


def _bound_text(parser: PenstockParser, rows: bool) -> tuple[str, Span]:
    """The text of one end, without its parentheses, after checking that it is one; and where it stands."""
    first = parser.here
    if not rows or parser.newest_rows() is None:
        parser.edge()
    at = Span(first.start, parser.last.end + 1)
    text = parser.parameters.substituted(parser.sql, at)
    return (text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text), at


_YEAR_US = 365 * 86_400_000_000


def create_rollup(parser: PenstockParser) -> st.CreateRollup:
    """`name ON table AS SELECT keys, aggregates [WHERE ..] GROUP BY keys EVERY d KEEP d, ...`"""
    if_not_exists, name, at = parser.new_name("rollup")
    parser.need("ON")
    source = parser.here
    table, table_at = parser.name("the name of a sensor table")
    parser.need("AS")
    asked = _select(parser, table, source)
    tiers = parser.several(lambda: _tier(parser))
    return st.CreateRollup(name, table, asked, tiers, if_not_exists, table_at=table_at, name_at=at)


def _select(parser: PenstockParser, table: str, named: Token) -> st.Select:
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
    return st.Select(query, parser.parameters.substituted(parser.sql, span), source=st.SourceText(parser.sql, span))


def _tier(parser: PenstockParser) -> st.TierClause:
    first = parser.here
    parser.need("EVERY")
    every = parser.duration()
    every_at = Span(first.start, parser.last.end + 1)
    first = parser.here
    if not parser.take("KEEP"):
        return st.TierClause(every, None, every_at, every_at)
    keep = None if parser.take("FOREVER") or parser.take("FOR", "EVER") else _keep(parser)
    return st.TierClause(every, keep, every_at, Span(first.start, parser.last.end + 1))


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


def create_sink(parser: PenstockParser) -> st.CreateSink:
    if_not_exists, name, at = parser.new_name("sink")
    parser.need("FOR")
    parser.take("QUERY")
    query, query_at = parser.name("the name of a query")
    parser.need("TO")
    kind, kind_at = parser.name("a kind of sink, such as webhook")
    options: tuple[st.StatementOption, ...] = ()
    if parser.peek("(") and not parser.take("(", ")"):
        options = parser.listed(lambda: option(parser))
    return st.CreateSink(name, query, kind, options, if_not_exists, query_at, kind_at, name_at=at)


def alter_sink(parser: PenstockParser) -> st.AlterSink:
    name, at = parser.name("the name of a sink")
    if parser.take("PAUSE"):
        return st.AlterSink(name, True, name_at=at)
    if parser.take("RESUME"):
        return st.AlterSink(name, False, name_at=at)
    raise parser.expected("PAUSE or RESUME")
