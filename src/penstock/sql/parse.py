"""Text -> statements. The only entry into the grammar; every error has a caret and a hint."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.clock import parse_timestamp
from penstock.errors import PenstockError, error
from penstock.sql.cursor import UnexpectedToken
from penstock.sql.dialect import Penstock, PenstockParser
from penstock.sql.grammar import administration, changes, definitions, queries, questions
from penstock.sql.parameters import Parameters, refuse_unused
from penstock.sql.positions import Span, offset_of, point, span_of_token
from penstock.sql.statements import AsOf, BadQuery, OnError, Select, SetOnError, SourceText, Statement, Transaction
from penstock.sql.values import LONG_UNITS

# Suggested for words that nearly are one; short words and those that make good names are left out.
KEYWORDS = (
    "SELECT FROM WHERE GROUP HAVING ORDER LIMIT OFFSET BEGIN JOIN LEFT RIGHT INNER OUTER FULL CROSS USING UNION "
    "INTERSECT EXCEPT DISTINCT VALUES INSERT INTO UPDATE DELETE CREATE ALTER DROP TABLE STREAM QUERY FUNCTION PRIMARY "
    "OPTIONS SUBSCRIBE CHANGES SHOW DESCRIBE EXPLAIN ANALYZE RETURNS LANGUAGE WITHIN DEDUPLICATE BETWEEN LIKE EXISTS "
    "WINDOW DWINDOW CASCADE ROLLUP"
).split()


# Reading SQL holds the interpreter's lock, a second for every half megabyte: no client may hold the server up for long.
SCRIPT_MAX_CHARS = 4_000_000
STATEMENT_MAX_TOKENS = 500_000


def parse_script(text: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> list[Statement]:
    """The statements of a script, in order. `params` gives `$1` (a sequence) or `:name` (a mapping) their values."""
    statements: list[Statement] = []
    asked_for: set[str] = set()
    on_error: OnError = "none"
    for tokens in _chunks(text):
        parameters = Parameters(params)
        try:
            statements.append(_statement(text, tokens, parameters))
        except PenstockError as failure:
            if on_error == "none" or len(tokens) < 3 or [t.text.upper() for t in tokens[:2]] != ["CREATE", "QUERY"]:
                raise
            statements.append(_bad_query(text, tokens, failure))
        asked_for |= parameters.keys
        last = statements[-1]
        on_error = last.choice if isinstance(last, SetOnError) else on_error
    refuse_unused(params, asked_for)
    return statements


def parse_select(text: str) -> Select:
    """The one SELECT of a stored text."""
    found = parse_script(text)
    if len(found) != 1 or not isinstance(found[0], Select):
        raise error("syntax_error", detail="expected one SELECT")
    return found[0]


def parse_as_of(text: str) -> AsOf:
    """A past moment as the API takes it: the number of a cycle, a time with or without quotes, or NOW - 10 MINUTES."""
    given = text.strip()
    if given.isdigit():
        return AsOf(cycle=int(given))
    try:
        return AsOf(time_us=parse_timestamp(given))
    except ValueError:
        pass
    parser = PenstockParser(given)
    hint = "write a time, NOW - 10 MINUTES or the number of a cycle"
    bad = error("invalid_parameter", detail=f'"{given}" is not a moment', hint=hint)
    try:
        parser.load(Penstock().tokenize(given))
        first = parser.here
        found = questions.as_of(parser, first, parser.moment())
    except (PenstockError, ParseError, TokenError):
        raise bad from None
    if not parser.at_end():
        raise bad
    return found


def _bad_query(text: str, tokens: list[Token], failure: PenstockError) -> BadQuery:
    words = [t.text.upper() for t in tokens[2:5]]
    token = tokens[5] if words == ["IF", "NOT", "EXISTS"] and len(tokens) > 5 else tokens[2]
    name = token.text if token.token_type == TokenType.IDENTIFIER else token.text.lower()
    return BadQuery(name, failure, source=SourceText(text, Span(tokens[0].start, tokens[-1].end + 1)))


def _chunks(text: str) -> list[list[Token]]:
    if len(text) > SCRIPT_MAX_CHARS:
        raise error("body_too_large", limit=SCRIPT_MAX_CHARS, hint="send the script in parts")
    try:
        tokens = Penstock().tokenize(text)
    except TokenError as failure:
        raise _token_failure(text, failure) from None
    chunks: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            chunks.append([])
        else:
            chunks[-1].append(token)
    for chunk in chunks:
        if len(chunk) > STATEMENT_MAX_TOKENS:
            long = f"a statement has at most {STATEMENT_MAX_TOKENS} words and signs; this one has {len(chunk)}"
            raise point(error("syntax_error", detail=long, hint="send it in parts"), text, span_of_token(chunk[0]))
    return [chunk for chunk in chunks if chunk]


def _token_failure(text: str, failure: TokenError) -> PenstockError:
    """The error for text that the tokenizer cannot read: nearly always a quote that is not closed."""
    for mark, what in (("'", "a text in quotes"), ('"', "a quoted name"), ("$$", "a body between $$ and $$")):
        if text.count(mark) % 2:
            start = text.rfind(mark)
            found = error("syntax_error", detail=f"{what} does not end", hint=f"close it with {mark}")
            return point(found, text, Span(start, start + len(mark)))
    return point(error("syntax_error", detail=str(failure).split("\n")[0]), text, Span(0, 1))


def _statement(text: str, tokens: list[Token], parameters: Parameters) -> Statement:
    parser = PenstockParser(text, parameters)
    parser.load(tokens)
    try:
        statement = _dispatch(parser)
        if not parser.at_end():
            raise UnexpectedToken("unexpected", parser.here)
    except UnexpectedToken as failure:
        raise _unexpected(text, tokens, failure.token, failure.description) from None
    except ParseError as failure:
        description = failure.errors[0].get("description") if failure.errors else str(failure)
        raise point(error("syntax_error", detail=str(description)), text, span_of_token(parser.here)) from None
    except RecursionError:
        raise error("syntax_error", detail="the statement is nested too deeply") from None
    except PenstockError as failure:
        raise _with_hint(text, tokens, failure) from None
    span = Span(tokens[0].start, tokens[-1].end + 1)
    return replace(statement, source=SourceText(text, span))


def _dispatch(parser: PenstockParser) -> Statement:
    for words, grammar in _STATEMENTS:
        if parser.peek(*words):
            if words[0] not in ("SELECT", "WITH", "(", "VALUES"):
                parser.take(*words)
            return grammar(parser)
    word = parser.here.text
    if word.upper() == "CREATE":
        parser.skip()
        raise parser.expected("STREAM TYPE, TABLE, QUERY, ROLLUP, SINK, FUNCTION, AGGREGATE, USER or TOKEN")
    if word.upper() == "ALTER":
        parser.skip()
        raise parser.expected("TABLE, QUERY, SINK, USER or SYSTEM")
    known = sorted({first for (first, *_), _ in _STATEMENTS if first.isalpha()})
    failure = error("syntax_error", detail=f'no statement begins with "{word}"', hint=_near(word, known))
    raise parser.fail(failure)


def _transaction(parser: PenstockParser) -> Transaction:
    kind = parser.last.text.upper()
    while not parser.at_end() and parser.here.text.upper() in ("TRANSACTION", "WORK"):
        parser.skip()
    return Transaction("BEGIN" if kind == "TRANSACTION" else kind)


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[PenstockParser], Statement]], ...] = (
    (("SELECT",), questions.select),
    (("WITH",), questions.select),
    (("VALUES",), questions.select),
    (("(",), questions.select),
    (("CREATE", "STREAM", "TYPE"), definitions.create_stream_type),
    (("CREATE", "TABLE"), definitions.create_table),
    (("CREATE", "QUERY"), queries.create_query),
    (("CREATE", "ROLLUP"), queries.create_rollup),
    (("CREATE", "FUNCTION"), lambda parser: definitions.create_function(parser, or_replace=False)),
    (("CREATE", "OR", "REPLACE", "FUNCTION"), lambda parser: definitions.create_function(parser, or_replace=True)),
    (("CREATE", "AGGREGATE"), lambda parser: definitions.create_function(parser, False, aggregate=True)),
    (
        ("CREATE", "OR", "REPLACE", "AGGREGATE"),
        lambda parser: definitions.create_function(parser, True, aggregate=True),
    ),
    (("CREATE", "SINK"), queries.create_sink),
    (("ALTER", "SINK"), queries.alter_sink),
    (("CREATE", "USER"), administration.create_user),
    (("CREATE", "ROLE"), administration.create_user),
    (("CREATE", "TOKEN"), administration.create_token),
    (("ALTER", "USER"), administration.alter_user),
    (("ALTER", "ROLE"), administration.alter_user),
    (("DROP", "USER"), lambda parser: administration.drop_accounts(parser, "user")),
    (("DROP", "ROLE"), lambda parser: administration.drop_accounts(parser, "user")),
    (("DROP", "TOKEN"), lambda parser: administration.drop_accounts(parser, "token")),
    (("ALTER", "SYSTEM"), administration.alter_system),
    (("ALTER", "TABLE"), definitions.alter_table),
    (("ALTER", "QUERY"), queries.alter_query),
    (("COMMENT", "ON"), queries.comment_on),
    (("SET",), queries.set_on_error),
    (("DROP",), definitions.drop),
    (("INSERT",), changes.insert),
    (("UPDATE",), changes.update),
    (("DELETE",), changes.delete),
    (("SUBSCRIBE",), questions.subscribe),
    (("SHOW",), questions.show),
    (("CANCEL", "STATEMENT"), questions.cancel_statement),
    (("DESCRIBE",), questions.describe),
    (("DESC",), questions.describe),
    (("EXPLAIN",), questions.explain),
    (("BEGIN",), _transaction),
    (("COMMIT",), _transaction),
    (("END",), _transaction),
    (("ROLLBACK",), _transaction),
    (("START", "TRANSACTION"), _transaction),
)
STATEMENT_WORDS = tuple(words for words, _ in _STATEMENTS)


def _unexpected(text: str, tokens: list[Token], token: Token, description: str) -> PenstockError:
    """sqlglot's complaint in our words; a word next to it that nearly is a keyword gets the caret."""
    duration = _misspelt_duration(tokens, token)
    if duration is not None:
        return point(duration, text, span_of_token(token))
    misspelt = _misspelt(tokens, token)
    if misspelt is not None:
        suspect, keyword = misspelt
        failure = error("syntax_error", detail=f'unexpected "{suspect.text}"', hint=f'did you mean "{keyword}"?')
        return point(failure, text, span_of_token(suspect))
    if not token.text:
        detail = "the statement ends too early"
    elif "number of provided arguments" in description:
        detail = f'wrong number of arguments before "{token.text}"'
    elif "Required argument" in description or "Expected" in description or "Expecting" in description:
        detail = f'something is missing before "{token.text}"'
    else:
        detail = f'unexpected "{token.text}"'
    return point(error("syntax_error", detail=detail), text, span_of_token(token))


def _with_hint(text: str, tokens: list[Token], failure: PenstockError) -> PenstockError:
    """A complaint of our own grammar, with a suggestion if the word it points at nearly is a keyword."""
    if failure.condition != "syntax_error" or failure.hint or failure.line is None or failure.column is None:
        return failure
    offset = offset_of(text, failure.line, failure.column)
    for token in tokens:
        if token.start == offset and _is_word(token):
            failure.hint = _near(token.text, KEYWORDS)
    return failure


def _misspelt_duration(tokens: list[Token], token: Token) -> PenstockError | None:
    """A number and what nearly is a unit."""
    index = next((i for i, t in enumerate(tokens) if t.start == token.start), 0)
    if index == 0 or tokens[index - 1].token_type != TokenType.NUMBER or not _is_word(token):
        return None
    near = difflib.get_close_matches(token.text.upper(), sorted(LONG_UNITS), n=1, cutoff=0.75)
    if not near:
        return None
    hint = f'did you mean "{near[0]}"?'
    return error("invalid_duration", text=f"{tokens[index - 1].text} {token.text}", hint=hint)


def _misspelt(tokens: list[Token], token: Token) -> tuple[Token, str] | None:
    index = next((i for i, t in enumerate(tokens) if t.start == token.start), len(tokens))
    for suspect in reversed(tokens[max(0, index - 2) : index + 1]):
        if _is_word(suspect) and suspect.text.upper() not in KEYWORDS:
            near = difflib.get_close_matches(suspect.text.upper(), KEYWORDS, n=1, cutoff=0.75)
            if near:
                return suspect, near[0]
    return None


def _is_word(token: Token) -> bool:
    return token.token_type == TokenType.VAR


def _near(word: str, known: Sequence[str]) -> str | None:
    near = difflib.get_close_matches(word.upper(), known, n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near and near[0] != word.upper() else None
