"""Types and lists of typed names, as they stand in definitions."""

from __future__ import annotations

import re
from dataclasses import replace

from penstock.errors import PenstockError
from penstock.sql.dialect import PenstockParser
from penstock.sql.positions import Span, point
from penstock.types import Field, Type, parse_type

_SPELLINGS = (
    (re.compile(r"\bcharacter\s+varying\b", re.IGNORECASE), "VARCHAR"),
    (re.compile(r"\bcharacter\b", re.IGNORECASE), "CHAR"),
    (re.compile(r"\btimestamp(tz)?(\s*\(\d+\))?(\s+with(out)?\s+time\s+zone)?", re.IGNORECASE), "TIMESTAMP"),
)


def type_name(parser: PenstockParser) -> tuple[Type, Span]:
    """A type, with its sizes and parts."""
    first = parser.here
    if parser.at_end() or not first.text[:1].isalpha():
        raise parser.expected("a type")
    parser.skip()
    if first.text.upper() == "DOUBLE":
        parser.take("PRECISION")
    elif first.text.upper() == "CHARACTER":
        parser.take("VARYING")
    if parser.peek("("):
        _through(parser, "(", ")")
    if parser.peek("<"):
        _through(parser, "<", ">")
    if first.text.upper().startswith("TIMESTAMP"):
        parser.take("WITH", "TIME", "ZONE") or parser.take("WITHOUT", "TIME", "ZONE")
    span = Span(first.start, parser.last.end + 1)
    try:
        found = parse_type(normalised(parser.sql[span.start : span.end]))
    except PenstockError as failure:
        raise point(failure, parser.sql, span) from None
    while parser.take("[", "]"):
        found = Type("ARRAY", element=found)
    return found, Span(span.start, parser.last.end + 1)


def normalised(text: str) -> str:
    """A type's text in the words of `penstock.types`."""
    for pattern, word in _SPELLINGS:
        text = pattern.sub(word, text)
    return text


def _through(parser: PenstockParser, opening: str, closing: str) -> None:
    depth = 0
    while not parser.at_end():
        depth += parser.here.text == opening
        depth -= parser.here.text == closing
        parser.skip()
        if depth == 0:
            return
    raise parser.expected(f'"{closing}"')


def typed_name(parser: PenstockParser) -> Field:
    """`name type`, e.g. a parameter of a function."""
    name, _ = parser.name("a name")
    found, _ = type_name(parser)
    return Field(name, found)


def stream_field(parser: PenstockParser) -> Field:
    """`name type [NOT NULL]`."""
    field = typed_name(parser)
    required = parser.take("NOT", "NULL")
    if not required:
        parser.take("NULL")
    return replace(field, required=required)
