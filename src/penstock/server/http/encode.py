"""Answers as they leave: JSON, CSV, NDJSON or Arrow, by what `Accept` asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
from starlette.responses import Response

from penstock.clock import format_timestamp
from penstock.errors import error
from penstock.json_rows import json_value, json_values, row_objects, timestamp_texts
from penstock.server.http.decode import ARROW, CSV, JSON, NDJSON
from penstock.views.results import Event, Result

METADATA_KEY = b"penstock"


def choose_format(accept: str | None) -> str:
    """The best of our media types for an Accept header; JSON where anything will do."""
    if not accept:
        return JSON
    ranked: list[tuple[float, str]] = []
    for part in accept.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        given = {key.strip(): value for key, _, value in (parameter.partition("=") for parameter in parameters)}
        ranked.append((_quality(given.get("q", "1")), name.lower()))
    offered = {"*/*": JSON, "application/*": JSON, "text/*": CSV, **{name: name for name in ENCODERS}}
    for quality, name in sorted(ranked, key=lambda pair: -pair[0]):
        if quality > 0 and name in offered:
            return offered[name]
    raise error("unsupported_media_type", media_type=accept, hint="answers come as " + ", ".join(ENCODERS))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def encode_result(result: Result, media_type: str) -> Response:
    """The whole response. Runs in a worker thread: a million rows take a second."""
    headers = {} if media_type == JSON else _headers(result)
    return Response(ENCODERS[media_type](result), headers=headers, media_type=media_type)


def describe(result: Result) -> dict[str, Any]:
    """Everything about an answer but its rows."""
    return {
        "cycle": result.cycle,
        "now": _time(result.now_us),
        "complete_from": _time(result.complete_from_us),
        "final_to": _time(result.final_to_us),
        "behind": result.behind.to_json() if result.behind is not None else None,
        "done": result.done,
        "notices": list(result.notices),
    }


def json_response(body: Any, status: int = 200) -> Response:
    """A small document, with whatever values a catalog holds."""
    return Response(orjson.dumps(json_value(body)), status, media_type=JSON)


def columns_of(table: pa.Table) -> list[dict[str, str]]:
    return [{"name": field.name, "type": type_name(field.type)} for field in table.schema]


def encode_event(event: Event) -> bytes:
    """The data of one server-sent event; rows are objects, since each event stands alone."""
    behind = event.behind.to_json() if event.behind is not None else None
    facts = {
        "cycle": event.cycle,
        "now": _time(event.now_us),
        "final_to": _time(event.final_to_us),
        "behind": behind,
    }
    return orjson.dumps({**facts, "columns": columns_of(event.table), "rows": row_objects(event.table)})


def _time(us: int | None) -> str | None:
    return None if us is None else format_timestamp(us)


def _headers(result: Result) -> dict[str, str]:
    facts = describe(result)
    for name in ("notices", "behind"):
        # Header values are Latin-1 at best, so these travel as JSON in ASCII.
        value = facts.pop(name)
        if value:
            facts[name] = orjson.dumps(value).decode().encode("ascii", "backslashreplace").decode()
    # "complete_from" is Penstock-Complete-From.
    return {f"Penstock-{name.replace('_', '-').title()}": str(v) for name, v in facts.items() if v is not None}


def _encode_json(result: Result) -> bytes:
    columns = [json_values(column) for column in result.table.columns]
    rows: list[Any] = list(zip(*columns, strict=True)) if columns else []
    return orjson.dumps({"columns": columns_of(result.table), "rows": rows, **describe(result)})


def _encode_ndjson(result: Result) -> bytes:
    rows = row_objects(result.table)
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _encode_csv(result: Result) -> bytes:
    if not result.table.num_columns:
        return b""
    columns = [_csv_column(column) for column in result.table.columns]
    table = pa.Table.from_arrays(columns, names=result.table.schema.names)
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(table, sink, pa_csv.WriteOptions(quoting_style="needed"))
    return bytes(memoryview(sink.getvalue()))


def _encode_arrow(result: Result) -> bytes:
    schema = result.table.schema.with_metadata({METADATA_KEY: orjson.dumps(describe(result))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(result.table.replace_schema_metadata(schema.metadata))
    return bytes(memoryview(sink.getvalue()))


ENCODERS: dict[str, Callable[[Result], bytes]] = {
    JSON: _encode_json,
    CSV: _encode_csv,
    NDJSON: _encode_ndjson,
    ARROW: _encode_arrow,
}


def _csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return timestamp_texts(column)
    if pa.types.is_nested(kind):
        texts = [None if v is None else orjson.dumps(json_value(v)).decode() for v in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_decimal(kind) or pa.types.is_binary(kind):
        return pa.chunked_array([pa.array(json_values(column), pa.string())])
    return column


def type_name(kind: pa.DataType) -> str:
    """The spelling that `penstock.types.parse_type` reads back; TEXT for what has no SQL name."""
    if pa.types.is_integer(kind):
        return "INT" if kind.bit_width <= 32 and kind != pa.uint32() else "BIGINT"
    if pa.types.is_floating(kind):
        return "DOUBLE"
    if pa.types.is_boolean(kind):
        return "BOOLEAN"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "BINARY"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "STRUCT<" + ", ".join(f"{field.name}: {type_name(field.type)}" for field in kind) + ">"
    return "TEXT"
