"""Definitions to JSON and back, for the journal: the fields of a record by name, in the order of its class."""

from __future__ import annotations

from dataclasses import astuple, fields, is_dataclass
from functools import cache, lru_cache
from typing import Any

import orjson

from penstock.catalog.model import (
    Deduplicate,
    Entry,
    Function,
    QueryDefinition,
    Sink,
    StreamColumn,
    StreamType,
    Table,
    TableOptions,
    plan_text,
)
from penstock.types import Field, Type, parse_type


def to_json(record: Any) -> dict[str, Any]:
    """A definition as JSON. Records in a tuple are lists of their values, types are spelled as in SQL."""
    return {name: _plain(getattr(record, name)) for name in _fields_of(record.__class__)}


@cache
def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _plain(value: Any) -> Any:
    if isinstance(value, Type):
        return str(value)
    if isinstance(value, Deduplicate):
        return [list(value.fields), value.within_us]
    if isinstance(value, tuple | list):
        return [_listed(each) for each in value]
    return to_json(value) if is_dataclass(value) else value


def _listed(value: Any) -> Any:
    if isinstance(value, Field):
        return [value.name, str(value.type), *(["NOT NULL"] if value.required else [])]
    return list(astuple(value)) if is_dataclass(value) and not isinstance(value, type) else value


def known_of(kind: type, data: dict[str, Any]) -> dict[str, Any]:
    """What the data says of the fields of a record: entries of older versions do not have them all."""
    return {name: data[name] for name in _fields_of(kind) if name in data}


def fields_from_json(data: list[list[str]]) -> tuple[Field, ...]:
    return tuple(Field(name, parse_type(type_), "NOT NULL" in more) for name, type_, *more in data)


def stream_type_from_json(data: dict[str, Any]) -> StreamType:
    return StreamType(**{**known_of(StreamType, data), "fields": fields_from_json(data["fields"])})


def table_from_json(data: dict[str, Any]) -> Table:
    stream, options = data["stream"], known_of(TableOptions, data["options"])
    if stream is not None:
        stream = StreamColumn(**{**known_of(StreamColumn, stream), "fields": fields_from_json(stream["fields"])})
    if options["deduplicate"] is not None:
        names, within_us = options["deduplicate"]
        options["deduplicate"] = Deduplicate(tuple(names), within_us)
    columns = fields_from_json(data["columns"])
    return Table(data["id"], data["name"], columns, tuple(data["key"]), stream, TableOptions(**options))


def function_from_json(data: dict[str, Any]) -> Function:
    types = {"parameters": fields_from_json(data["parameters"]), "returns": parse_type(data["returns"])}
    return Function(**{**known_of(Function, data), **types})


def sink_from_json(data: dict[str, Any]) -> Sink:
    return Sink(**known_of(Sink, data))


def query_entry(query: QueryDefinition) -> dict[str, Any]:
    """The entry for a caller that writes it as text at once. The plan is text already."""
    entry = {name: getattr(query, name) for name in _fields_of(QueryDefinition)}
    entry["plan"] = orjson.Fragment(entry.pop("stored_plan"))
    return entry


@lru_cache(maxsize=1024)
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    """One for all that are equal: thousands of queries read the same tables."""
    return names


def query_from_json(data: dict[str, Any]) -> QueryDefinition:
    reads = {name: _names(tuple(data[name])) for name in ("reads_tables", "reads_queries", "reads_functions")}
    return QueryDefinition(**{**known_of(QueryDefinition, data), **reads, "stored_plan": plan_text(data["plan"])})


def quarantined_by(entry: Entry) -> dict[int, str]:
    """The queries that an entry takes out of the cycles, with the reason for each."""
    return {int(query_id): reason for query_id, reason in entry.body["queries"].items()}
