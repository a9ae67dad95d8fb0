"""CREATE STREAM TYPE, CREATE TABLE, CREATE FUNCTION, CREATE AGGREGATE, ALTER TABLE and DROP."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from sqlglot.tokenizer_core import TokenType

from penstock.errors import PenstockError, error
from penstock.sql import statements as st
from penstock.sql.dialect import PenstockParser
from penstock.sql.positions import Span, point, span_of_token
from penstock.sql.values import normalised
from penstock.types import Field, Type, parse_type


def create_stream_type(parser: PenstockParser) -> st.CreateStreamType:
    if_not_exists, name, at = parser.new_name("stream type")
    parser.take("AS")
    fields = parser.listed(lambda: stream_field(parser))
    connector: str | None = None
    options: tuple[st.StatementOption, ...] = ()
    while not parser.at_end():
        if connector is None and parser.take("USING"):
            connector, _ = parser.name("a way to reach the sensors, such as mqtt")
        elif not options and parser.take("OPTIONS"):
            options = parser.listed(lambda: option(parser))
        else:
            raise parser.expected("USING, OPTIONS or the end of the statement")
    return st.CreateStreamType(name, fields, connector, options, if_not_exists, name_at=at)


def create_table(parser: PenstockParser) -> st.CreateTable:
    if_not_exists, name, at = parser.new_name("table")
    columns: list[st.ColumnDefinition] = []
    key: tuple[str, ...] = ()
    options: list[st.StatementOption] = []
    deduplicate: st.DeduplicateClause | None = None
    parser.need("(")
    while True:
        if parser.peek("PRIMARY", "KEY"):
            here = parser.here
            parser.take("PRIMARY", "KEY")
            if key:
                raise parser.fail(error("invalid_definition", detail="the table has two primary keys"), here)
            key = tuple(column for column, _ in parser.listed(lambda: parser.name("a column")))
        else:
            columns.append(_column(parser))
        if parser.take(","):
            continue
        if parser.take(")"):
            break
        raise parser.expected('"," or ")"')
    while not parser.at_end():
        here = parser.here
        if parser.take("WITH"):
            options.extend(parser.listed(lambda: option(parser)))
        elif parser.take("ALWAYS", "ON"):
            options.append(st.StatementOption("always_on", "true", span_of_token(here)))
        elif deduplicate is None and (parser.take("DEDUPLICATE", "BY") or parser.take("DEDUPLICATE")):
            fields = tuple(field for field, _ in parser.listed(lambda: _dotted(parser)))
            parser.need("WITHIN")
            within_us = parser.duration()
            deduplicate = st.DeduplicateClause(fields, within_us, Span(here.start, parser.last.end + 1))
        else:
            raise parser.expected("WITH, ALWAYS ON, DEDUPLICATE BY or the end of the statement")
    inline = tuple(column.name for column in columns if column.primary_key)
    if (key and inline) or len(inline) > 1:
        hint = "write PRIMARY KEY (a, b) after the columns for a key of several"
        raise parser.fail(error("invalid_definition", detail="the table has two primary keys", hint=hint), parser.last)
    return st.CreateTable(name, tuple(columns), key or inline, tuple(options), deduplicate, if_not_exists, name_at=at)


def _dotted(parser: PenstockParser) -> tuple[str, Span]:
    """A field, perhaps with its stream column before it."""
    name, at = parser.name("a column or field")
    while parser.take("."):
        name, at = parser.name("a field")
    return name, at


def _column(parser: PenstockParser) -> st.ColumnDefinition:
    name, at = parser.name("a column's name")
    if parser.take("STREAM"):
        if parser.peek("("):
            return st.ColumnDefinition(name, stream_fields=parser.listed(lambda: stream_field(parser)), at=at)
        type_, type_at = parser.name("a stream type or a list of fields")
        return st.ColumnDefinition(name, stream_type=type_, at=at, type_at=type_at)
    found, type_at = type_name(parser)
    primary_key = not_null = False
    while True:
        if parser.take("PRIMARY", "KEY"):
            primary_key = True
        elif parser.take("NOT", "NULL"):
            not_null = True
        elif not parser.take("NULL"):
            break
    if parser.here.text.upper() in ("DEFAULT", "REFERENCES", "CHECK", "UNIQUE", "GENERATED", "CONSTRAINT"):
        word = parser.here.text.upper()
        raise parser.fail(error("not_supported", feature=f"{word} on a column"))
    return st.ColumnDefinition(name, found, primary_key, not_null, at=at, type_at=type_at)


def option(parser: PenstockParser) -> st.StatementOption:
    name, at = parser.name("an option's name")
    while parser.take(".") or parser.take("-"):
        part, _ = parser.name("an option's name")
        name = f"{name}.{part}"
    parser.take("=")
    first = parser.here
    if parser.at_end() or parser.peek(",") or parser.peek(")"):
        raise parser.expected(f'a value for "{name}"')
    if first.token_type == TokenType.STRING:
        parser.skip()
        return st.StatementOption(name, first.text, Span(at.start, first.end + 1))
    depth = 0
    while not parser.at_end() and (depth or not (parser.peek(",") or parser.peek(")"))):
        depth += parser.here.text == "("
        depth -= parser.here.text == ")"
        parser.skip()
    return st.StatementOption(name, parser.sql[first.start : parser.last.end + 1], Span(at.start, parser.last.end + 1))


def create_function(parser: PenstockParser, or_replace: bool, aggregate: bool = False) -> st.CreateFunction:
    """CREATE FUNCTION, and CREATE AGGREGATE, which has a STATE and works on single values."""
    if_not_exists, name, at = parser.new_name("aggregate" if aggregate else "function")
    parameters: tuple[Field, ...] = ()
    if not parser.take("(", ")"):
        parameters = parser.listed(lambda: typed_name(parser))
    returns: Type | None = None
    state: Type | None = None
    language, body, vectorised = "python", None, False
    while not parser.at_end():
        if parser.take("RETURNS"):
            returns, _ = type_name(parser)
        elif parser.take("LANGUAGE"):
            here = parser.here
            language, _ = parser.name("a language")
            if language not in ("python", "python3", "plpython3u"):
                failure = error(
                    "not_supported", feature=f'language "{language}"', hint="functions are written in python"
                )
                raise parser.fail(failure, here)
        elif aggregate and state is None and parser.take("STATE"):
            state, _ = type_name(parser)
        elif not aggregate and (parser.take("VECTORISED") or parser.take("VECTORIZED")):
            vectorised = True
        elif parser.take("IMMUTABLE") or parser.take("STRICT"):
            continue
        elif parser.take("AS"):
            body = parser.text_literal("the body between $$ and $$")
        else:
            raise parser.expected(f"RETURNS, LANGUAGE, {'STATE' if aggregate else 'VECTORISED'} or AS $$ ... $$")
    if returns is None:
        raise parser.expected("RETURNS and a type")
    if aggregate and state is None:
        raise parser.expected("STATE and a type")
    if body is None:
        raise parser.expected("AS $$ ... $$")
    return st.CreateFunction(
        name, parameters, returns, "python", body, vectorised, state, or_replace, if_not_exists, name_at=at
    )


def alter_table(parser: PenstockParser) -> st.AddColumn | st.AlterLateness:
    table, at = parser.name("the name of a table")
    if parser.take("SET"):
        return st.AlterLateness(table, option(parser), name_at=at)
    if not parser.take("ADD"):
        word = parser.here.text.upper()
        if word in ("ALTER", "DROP", "RENAME"):
            hint = "ALTER TABLE can ADD COLUMN and SET lateness; a column's type never changes"
            raise parser.fail(error("not_supported", feature=f"ALTER TABLE {word}", hint=hint))
        raise parser.expected("ADD COLUMN or SET lateness")
    parser.take("COLUMN")
    if_not_exists = parser.take("IF", "NOT", "EXISTS")
    name, _ = parser.name("a column's name")
    stream: str | None = None
    if parser.take("."):
        stream = name
        name, _ = parser.name("a field's name")
    found, _ = type_name(parser)
    if parser.peek("NOT", "NULL"):
        hint = "rows and readings that are there already have NULL there"
        raise parser.fail(error("not_supported", feature="NOT NULL on an added column", hint=hint))
    parser.take("NULL")
    return st.AddColumn(table, Field(name, found), stream, if_not_exists, name_at=at)


def drop(parser: PenstockParser) -> st.Drop:
    kind: st.DropKind
    if parser.take("STREAM", "TYPE"):
        kind = "stream_type"
    else:
        word = parser.here.text.lower()
        if word not in ("table", "function", "aggregate", "query", "rollup", "sink"):
            raise parser.expected("TABLE, STREAM TYPE, FUNCTION, AGGREGATE, QUERY, ROLLUP, SINK, USER or TOKEN")
        parser.skip()
        # An aggregate is a function: both have their names from one list.
        kind = "function" if word == "aggregate" else next(k for k in get_args(st.DropKind) if k == word)
    if kind == "query" and parser.take("LIKE"):
        return st.Drop(kind, (), like=parser.text_literal("a pattern in quotes"), cascade=_cascade(parser))
    if_exists = parser.take("IF", "EXISTS")
    texts, places = zip(*parser.several(lambda: _dropped(parser, kind)), strict=True)
    return st.Drop(kind, texts, if_exists, _cascade(parser), names_at=places, name_at=places[0])


def _dropped(parser: PenstockParser, kind: st.DropKind) -> tuple[str, Span]:
    found = parser.name(f"the name of the {kind.replace('_', ' ')}")
    if kind == "function" and parser.peek("("):
        while not parser.take(")"):
            if parser.at_end():
                raise parser.expected('")"')
            parser.skip()
    return found


def _cascade(parser: PenstockParser) -> bool:
    cascade = parser.take("CASCADE")
    if not cascade:
        parser.take("RESTRICT")
    return cascade


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
        _check_struct(found)
    except PenstockError as failure:
        raise point(failure, parser.sql, span) from None
    while parser.take("[", "]"):
        found = Type("ARRAY", element=found)
    return found, Span(span.start, parser.last.end + 1)


def _check_struct(type_: Type) -> None:
    """A field is found by its name, so that no two fields of a STRUCT have the same one."""
    names = [field.name for field in type_.fields]
    for name in names:
        if names.count(name) > 1:
            raise error("type_mismatch", detail=f'a STRUCT has two fields "{name}"')
    for part in (*(field.type for field in type_.fields), *((type_.element,) if type_.element else ())):
        _check_struct(part)


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
