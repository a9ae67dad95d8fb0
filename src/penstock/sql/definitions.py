"""CREATE TABLE and its relatives with their options, checked: from a statement to what the catalog stores."""

from __future__ import annotations

import re
from typing import Any

from penstock.catalog.model import TIME_COLUMN, Deduplicate, Function, StreamColumn, StreamType, Table, TableOptions
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError, error, suggest
from penstock.sql import statements as st
from penstock.sql.dialect import PenstockParser
from penstock.sql.functions import CALLS
from penstock.sql.grammar.queries import priority_named, strategy_named
from penstock.sql.positions import Span
from penstock.sql.spark.text_check import known_functions
from penstock.sql.values import duration_us
from penstock.types import Field


def bind_create_table(statement: st.CreateTable, state: CatalogState) -> Table:
    """The table a statement describes, without its number. Raises invalid_definition, invalid_option, stream_type_not_found."""
    _check_name(statement.name, statement, statement.name_at, "table")
    streams = [c for c in statement.columns if c.type is None]
    if len(streams) > 1:
        hint = "give each stream a table of its own; queries can join them"
        statement.refuse(streams[1].at, "a table has one stream column", hint)
    static = [c for c in statement.columns if c.type is not None]
    seen: set[str] = set()
    for column in statement.columns:
        _check_name(column.name, statement, column.at, "column")
        if column.name in seen:
            statement.fail(column.at, error("already_exists", kind="column", name=column.name))
        if streams and column.name == TIME_COLUMN:
            statement.refuse(column.at, f'"{TIME_COLUMN}" is the time of a reading; every sensor table has it already')
        seen.add(column.name)
    key = _key(statement, static, bool(streams))
    stream = _stream(statement, streams[0], state) if streams else None
    deduplicate = _deduplicate(statement, static, stream)
    options = table_options(statement, stream is not None, deduplicate)
    columns = tuple(Field(c.name, c.type, c.not_null) for c in static if c.type is not None)
    return Table(0, statement.name, columns, key, stream, options)


def _key(statement: st.CreateTable, static: list[st.ColumnDefinition], sensors: bool) -> tuple[str, ...]:
    names = [c.name for c in static]
    for name in statement.key:
        if name not in names:
            hint = suggest(name, names)
            failure = error("column_not_found", table=statement.name, column=name, hint=hint)
            statement.fail(statement.name_at, failure)
    for column in static:
        if column.name in statement.key and column.type is not None and column.type.kind in ("ARRAY", "STRUCT"):
            statement.refuse(column.at, f"{column.type} cannot be a key")
    if len(set(statement.key)) != len(statement.key):
        statement.refuse(statement.name_at, "the key names a column twice")
    if sensors and static and not statement.key:
        hint = f"write PRIMARY KEY behind {static[0].name}, or whichever columns tell sensors apart"
        statement.refuse(statement.name_at, "a sensor table with static columns needs a PRIMARY KEY", hint)
    return statement.key


def _stream(statement: st.CreateTable, column: st.ColumnDefinition, state: CatalogState) -> StreamColumn:
    if column.stream_fields is not None:
        _check_fields(statement, column.stream_fields, column.at)
        return StreamColumn(column.name, column.stream_fields)
    found = state.stream_types.get(column.stream_type or "")
    if found is None:
        hint = suggest(column.stream_type or "", state.stream_types) or "CREATE STREAM TYPE comes first"
        failure = error("stream_type_not_found", stream_type=column.stream_type, hint=hint)
        statement.fail(column.type_at, failure)
    return StreamColumn(column.name, found.fields, found.name, found.connector, dict(found.options))


def _deduplicate(
    statement: st.CreateTable, static: list[st.ColumnDefinition], stream: StreamColumn | None
) -> Deduplicate | None:
    clause = statement.deduplicate
    if clause is None:
        return None
    if stream is None:
        statement.refuse(clause.at, "DEDUPLICATE BY is about readings; this table has no stream")
    if clause.within_us <= 0:
        statement.refuse(clause.at, "DEDUPLICATE needs a time above zero")
    known = [*(f.name for f in stream.fields), *statement.key, TIME_COLUMN]
    for name in clause.fields:
        if name not in known:
            plain = name in {c.name for c in static}
            hint = (
                "only key columns, fields of the stream and ts tell readings apart" if plain else suggest(name, known)
            )
            failure = error("column_not_found", table=statement.name, column=name, hint=hint)
            statement.fail(clause.at, failure)
    return Deduplicate(clause.fields, clause.within_us)


def bind_create_stream_type(statement: st.CreateStreamType) -> StreamType:
    """The stream type a statement describes; whether its connector exists is for `sensors` to say."""
    _check_name(statement.name, statement, statement.name_at, "stream type")
    _check_fields(statement, statement.fields, statement.name_at)
    options = {option.name: option.value for option in statement.options}
    return StreamType(statement.name, statement.fields, statement.connector, options)


def bind_create_function(statement: st.CreateFunction) -> Function:
    """The function a statement describes. Names of built-in functions are refused."""
    _check_name(statement.name, statement, statement.name_at, "function")
    written = statement.name.upper()
    # The planner writes some functions into Spark's text that no statement can call: their names are taken, too.
    is_built_in = written in PenstockParser.FUNCTIONS or written in PenstockParser.FUNCTION_PARSERS
    if is_built_in or statement.name.lower() in {*known_functions(), *CALLS}:
        detail = f'"{statement.name}" is a built-in function'
        statement.refuse(statement.name_at, detail, "choose another name")
    names = [p.name for p in statement.parameters]
    if len(set(names)) != len(names):
        statement.refuse(statement.name_at, "two parameters have the same name")
    if statement.state is not None and not names:
        statement.refuse(statement.name_at, "an aggregate has a parameter", "COUNT(*) counts rows")
    return Function(
        statement.name,
        statement.parameters,
        statement.returns,
        statement.body,
        statement.language,
        statement.vectorised,
        statement.state,
    )


def bind_add_column(statement: st.AddColumn, state: CatalogState) -> tuple[Table, Field, bool]:
    """The table, the new column and whether it is a field of the stream."""
    table = _table_of(statement, state)
    if statement.stream is not None and (table.stream is None or table.stream.name != statement.stream):
        known = [table.stream.name] if table.stream is not None else []
        hint = suggest(statement.stream, known) or "leave out what stands before the dot for a static column"
        failure = error("column_not_found", table=table.name, column=statement.stream, hint=hint)
        statement.fail(statement.name_at, failure)
    _check_name(statement.column.name, statement, statement.name_at, "column")
    if table.stream is not None and statement.column.name == TIME_COLUMN:
        statement.refuse(statement.name_at, f'"{TIME_COLUMN}" is the time of a reading')
    return table, statement.column, statement.stream is not None


def _check_fields(statement: st.CreateTable | st.CreateStreamType, fields: tuple[Field, ...], at: Span | None) -> None:
    seen: set[str] = set()
    for field in fields:
        _check_name(field.name, statement, at, "field")
        if field.name == TIME_COLUMN:
            statement.refuse(at, f'"{TIME_COLUMN}" is the time of a reading; every stream has it already')
        if field.name in seen:
            statement.fail(at, error("already_exists", kind="field", name=field.name))
        seen.add(field.name)


def _check_name(name: str, statement: st.Statement, at: Span | None, kind: str) -> None:
    if name.startswith("_"):
        statement.refuse(at, f'the {kind} name "{name}" begins with an underscore, which marks columns of the system')
    if not name or len(name) > 128:
        statement.refuse(at, f"a {kind} name has 1 to 128 characters")


# -- WITH (...) of CREATE TABLE

# Name -> what it takes, in the words of the error message.
TABLE_OPTIONS = {
    "time": "'valid' or 'transaction'",
    "out_of_order": "'refuse', 'clamp' or 'accept'",
    "retention": "a duration, or 'forever'",
    "idle": "a duration",
    "max_ahead": "a duration",
    "lateness": "a duration",
    "always_on": "true or false",
    "discover": "true or false",
}
_CHOICES = {"time": ("valid", "transaction"), "out_of_order": ("refuse", "clamp", "accept")}


def table_options(statement: st.CreateTable, has_stream: bool, deduplicate: Deduplicate | None) -> TableOptions:
    """The options of a table. Raises invalid_option, pointing at the option."""
    found: dict[str, Any] = {}
    for option in statement.options:
        try:
            if not has_stream:
                raise error(
                    "invalid_option", option=option.name, detail="only a table with a stream column has options"
                )
            key, value = _value(option)
            if key == "discover" and value and not statement.key:
                detail = "a table without a key is one sensor, so there is none to discover"
                raise error("invalid_option", option=option.name, detail=detail, hint="give it a PRIMARY KEY")
            if key in found:
                raise error("invalid_option", option=option.name, detail="it is given twice")
            found[key] = value
        except PenstockError as failure:
            raise statement.source.point(failure, option.at) from None
    if found.get("lateness_us") is not None and found.get("time") != "valid":
        at = next(option.at for option in statement.options if option.name == "lateness")
        raise statement.source.point(no_lateness(), at)
    return TableOptions(**found, deduplicate=deduplicate)


def no_lateness() -> PenstockError:
    """The error for a lateness of a table that gives the times itself."""
    detail = "only a table with time = 'valid' has readings that come late"
    return error("invalid_option", option="lateness", detail=detail, hint="leave it out: the log gives the times")


def bind_alter_lateness(statement: st.AlterLateness, state: CatalogState) -> tuple[Table, int]:
    """The table and its new lateness. Raises invalid_option, pointing at the option."""
    table = _table_of(statement, state)
    try:
        if statement.option.name != "lateness":
            hint = suggest(statement.option.name, ["lateness"]) or "lateness is what can be changed"
            raise error("not_supported", feature=f"ALTER TABLE SET {statement.option.name}", hint=hint)
        if table.options.time != "valid":
            raise no_lateness()
        _, us = _value(statement.option)
    except PenstockError as failure:
        raise statement.source.point(failure, statement.option.at) from None
    return table, int(us)


def _table_of(statement: st.AddColumn | st.AlterLateness, state: CatalogState) -> Table:
    table = state.tables.get(statement.table)
    if table is None:
        hint = suggest(statement.table, state.tables)
        statement.fail(statement.name_at, error("table_not_found", table=statement.table, hint=hint))
    return table


def _value(option: st.StatementOption) -> tuple[str, Any]:
    name, text = option.name, option.value.strip().strip("'").lower()
    if name not in TABLE_OPTIONS:
        hint = suggest(name, TABLE_OPTIONS) or "options are " + ", ".join(TABLE_OPTIONS)
        raise error("invalid_option", option=name, detail="there is no such option", hint=hint)
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            raise _bad(name, option.value, suggest(text, _CHOICES[name]))
        return name, text
    if name in ("always_on", "discover"):
        if text not in ("true", "false", "on", "off", "yes", "no"):
            raise _bad(name, option.value, None)
        return name, text in ("true", "on", "yes")
    if name == "retention" and text in ("forever", "none", "unlimited"):
        return "retention_us", None
    try:
        us = duration_us(text.removeprefix("interval").strip().replace("'", ""))
    except PenstockError as failure:
        raise _bad(name, option.value, failure.hint) from None
    if us < 0 or (us == 0 and name not in ("max_ahead", "lateness")):
        raise _bad(name, option.value, "it has to be above zero")
    return f"{name}_us", us


def _bad(name: str, value: str, hint: str | None) -> PenstockError:
    return error("invalid_option", option=name, detail=f'"{value}" is not {TABLE_OPTIONS[name]}', hint=hint)


# -- WITH (...) of CREATE QUERY: owner, description, and how its answer is stored

QUERY_OPTIONS = ("description", "owner", "priority", "strategy", "bounded")


def query_facts(statement: st.CreateQuery) -> dict[str, Any]:
    """The options, as far as they are given. Raises invalid_option, pointing at the option."""
    found: dict[str, Any] = {}
    for option in statement.options:
        name, text = option.name, option.value.strip()
        try:
            if name not in QUERY_OPTIONS:
                hint = suggest(name, QUERY_OPTIONS) or "options are " + ", ".join(QUERY_OPTIONS)
                raise error("invalid_option", option=name, detail="there is no such option", hint=hint)
            if name in found:
                raise error("invalid_option", option=name, detail="it is given twice")
            found[name] = _query_fact(name, text)
        except PenstockError as problem:
            raise statement.source.point(problem, option.at) from None
    return found


def _query_fact(name: str, text: str) -> Any:
    if name == "strategy":
        return strategy_named(text)
    if name == "priority":
        return priority_named(text)
    return bounded_named(text) if name == "bounded" else text or None


_SIZES = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def bounded_named(text: str) -> int | None:
    """What `bounded` promises, as definitions store it: bytes, 0 for any number of them, None for no promise. Raises invalid_option."""
    word = text.strip("'").strip().lower()
    if word in ("true", "on", "yes"):
        return 0
    if word in ("false", "off", "no"):
        return None
    size = re.fullmatch(r"(\d+) *([kmg]b)", word)
    if size is None or int(size[1]) == 0:
        hint = "bounded = true, or the most that the state may take: bounded = '64 MB'"
        raise error("invalid_option", option="bounded", detail=f'"{text}" is not true, false or a size', hint=hint)
    return int(size[1]) * _SIZES[size[2]]
