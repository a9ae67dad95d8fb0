"""Definitions to JSON and back, for the journal."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from penstock.catalog.entry import Entry
from penstock.catalog.model import (
    Deduplicate,
    Function,
    QueryDefinition,
    Sink,
    StreamColumn,
    StreamType,
    Table,
    TableOptions,
)
from penstock.types import Field, parse_type


def fields_to_json(fields: tuple[Field, ...]) -> list[list[str]]:
    return [[f.name, str(f.type), *(["NOT NULL"] if f.required else [])] for f in fields]


def fields_from_json(data: list[list[str]]) -> tuple[Field, ...]:
    return tuple(Field(name, parse_type(type_), "NOT NULL" in more) for name, type_, *more in data)


def stream_type_to_json(found: StreamType) -> dict[str, Any]:
    return {
        "name": found.name,
        "fields": fields_to_json(found.fields),
        "connector": found.connector,
        "options": found.options,
    }


def stream_type_from_json(data: dict[str, Any]) -> StreamType:
    return StreamType(data["name"], fields_from_json(data["fields"]), data["connector"], data["options"])


def table_to_json(table: Table) -> dict[str, Any]:
    stream, options = table.stream, table.options
    dedupe = options.deduplicate
    return {
        "id": table.id,
        "name": table.name,
        "columns": fields_to_json(table.columns),
        "key": list(table.key),
        "stream": None
        if stream is None
        else {
            "name": stream.name,
            "fields": fields_to_json(stream.fields),
            "stream_type": stream.stream_type,
            "connector": stream.connector,
            "options": stream.options,
        },
        "options": {
            "time": options.time,
            "out_of_order": options.out_of_order,
            "retention_us": options.retention_us,
            "idle_us": options.idle_us,
            "max_ahead_us": options.max_ahead_us,
            "always_on": options.always_on,
            "discover": options.discover,
            "deduplicate": None if dedupe is None else [list(dedupe.fields), dedupe.within_us],
        },
    }


def table_from_json(data: dict[str, Any]) -> Table:
    stream, options = data["stream"], dict(data["options"])
    dedupe = options.pop("deduplicate")
    return Table(
        id=data["id"],
        name=data["name"],
        columns=fields_from_json(data["columns"]),
        key=tuple(data["key"]),
        stream=None
        if stream is None
        else StreamColumn(
            stream["name"],
            fields_from_json(stream["fields"]),
            stream["stream_type"],
            stream["connector"],
            stream["options"],
        ),
        options=TableOptions(
            **options, deduplicate=None if dedupe is None else Deduplicate(tuple(dedupe[0]), dedupe[1])
        ),
    )


def function_to_json(function: Function) -> dict[str, Any]:
    return {
        "name": function.name,
        "parameters": fields_to_json(function.parameters),
        "returns": str(function.returns),
        "body": function.body,
        "language": function.language,
        "vectorised": function.vectorised,
    }


def function_from_json(data: dict[str, Any]) -> Function:
    return Function(
        data["name"],
        fields_from_json(data["parameters"]),
        parse_type(data["returns"]),
        data["body"],
        data["language"],
        data["vectorised"],
    )


def plan_text(plan: dict[str, Any]) -> bytes:
    # A copy: what orjson gives keeps the buffer that it wrote into, several times as large.
    return bytes(memoryview(orjson.dumps(plan)))


def query_entry(query: QueryDefinition) -> dict[str, Any]:
    """The entry for a caller that writes it as text at once. The plan is text already."""
    return {
        "id": query.id,
        "name": query.name,
        "sql": query.sql,
        "plan": orjson.Fragment(query.stored_plan),
        "reads_tables": list(query.reads_tables),
        "reads_queries": list(query.reads_queries),
        "reads_functions": list(query.reads_functions),
        "start_us": query.start_us,
        "paused": query.paused,
        "owner": query.owner,
        "description": query.description,
        "strategy": query.strategy,
        "quarantined": query.quarantined,
    }


@lru_cache(maxsize=1024)
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    """One for all that are equal: thousands of queries read the same tables."""
    return names


def query_from_json(data: dict[str, Any]) -> QueryDefinition:
    return QueryDefinition(
        id=data["id"],
        name=data["name"],
        sql=data["sql"],
        stored_plan=plan_text(data["plan"]),
        reads_tables=_names(tuple(data["reads_tables"])),
        reads_queries=_names(tuple(data["reads_queries"])),
        reads_functions=_names(tuple(data["reads_functions"])),
        start_us=data["start_us"],
        paused=data["paused"],
        # Entries of older versions do not have these.
        owner=data.get("owner"),
        description=data.get("description"),
        strategy=data.get("strategy"),
        quarantined=data.get("quarantined"),
    )


def quarantined_by(entry: Entry) -> dict[int, str]:
    """The queries that an entry takes out of the cycles, with the reason for each."""
    return {int(query_id): reason for query_id, reason in entry.body["queries"].items()}


def sink_to_json(sink: Sink) -> dict[str, Any]:
    return {
        "id": sink.id,
        "name": sink.name,
        "query": sink.query,
        "kind": sink.kind,
        "options": sink.options,
        "paused": sink.paused,
        "owner": sink.owner,
    }


def sink_from_json(data: dict[str, Any]) -> Sink:
    return Sink(
        data["id"], data["name"], data["query"], data["kind"], data["options"], data["paused"], data.get("owner")
    )
