"""Readings as they arrive: JSON, NDJSON, CSV, Arrow and Parquet bodies become rows for `Database.push`.

A body that cannot be read at all is refused as a whole, saying where; single readings are judged later, by the
log. CSV knows only text, so every column stays text here and is cast by the table's own types.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from penstock.errors import PenstockError, error
from penstock.server.body_limits import Body

Readings: TypeAlias = pa.Table | list[dict[str, Any]]

JSON = "application/json"
NDJSON = "application/x-ndjson"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
# A Parquet file may be far smaller than what is in it.
UNPACKED_MAX_BYTES = 1 << 30
_BATCH_ROWS = 8_192


def decode_readings(body: Body, media_type: str) -> Readings:
    """Rows of a body by its content type; invalid_body or unsupported_media_type where that fails."""
    decoder = DECODERS.get(media_type)
    if decoder is None:
        raise error("unsupported_media_type", media_type=media_type, hint="one of " + ", ".join(DECODERS))
    return decoder(body)


def _decode_json(body: Body) -> Readings:
    try:
        rows = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise error("invalid_body", detail=f"not JSON: {problem}") from None
    return rows_of_json(rows)


def rows_of_json(rows: Any) -> Readings:
    """A reading or an array of them; invalid_body for anything else."""
    if isinstance(rows, dict):
        return [rows]
    if not isinstance(rows, list):
        raise error("invalid_body", detail="readings are an array of objects", hint='[{"sensor_id": 1, "ppm": 37.5}]')
    for index, row in enumerate(rows):
        if type(row) is not dict:
            raise _not_an_object(f"element {index}")
    return rows


def _decode_ndjson(body: Body) -> Readings:
    rows: list[dict[str, Any]] = []
    loads = orjson.loads
    for number, line in enumerate(io.BytesIO(body), 1):
        if line.isspace():
            continue
        try:
            row = loads(line)
        except orjson.JSONDecodeError as problem:
            raise error("invalid_body", detail=f"line {number} is not JSON: {problem}") from None
        if type(row) is not dict:
            raise _not_an_object(f"line {number}")
        rows.append(row)
    return rows


def _not_an_object(where: str) -> PenstockError:
    return error("invalid_body", detail=f"{where} is not an object", hint='{"sensor_id": 1, "ppm": 37.5}')


def _decode_csv(body: Body) -> Readings:
    if not body.strip():
        raise error("invalid_body", detail="a CSV body starts with a line of column names")
    try:
        names = pa_csv.open_csv(pa.BufferReader(body), parse_options=_CSV_PARSE).schema.names
        _refuse_repeated(names)
        as_text = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            # As PostgreSQL reads CSV: nothing between the commas is NULL, "" is the empty text.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return pa_csv.read_csv(pa.BufferReader(body), parse_options=_CSV_PARSE, convert_options=as_text)
    except pa.ArrowInvalid as problem:
        raise error("invalid_body", detail=f"not CSV: {problem}") from None


_CSV_PARSE = pa_csv.ParseOptions(newlines_in_values=True)


def _decode_arrow(body: Body) -> Readings:
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            table = reader.read_all()
        # Offsets and lengths come from the sender: unchecked, they would let it read or crash our memory.
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, OSError) as problem:
        raise error("invalid_body", detail=f"not an Arrow stream: {problem}") from None
    _refuse_repeated(table.schema.names)
    return table


def _decode_parquet(body: Body) -> Readings:
    batches: list[pa.RecordBatch] = []
    size = 0
    try:
        with pq.ParquetFile(pa.BufferReader(body)) as file:
            schema = file.schema_arrow
            _refuse_repeated(schema.names)
            for batch in file.iter_batches(_BATCH_ROWS):
                size += batch.nbytes
                if size > UNPACKED_MAX_BYTES:
                    raise error("body_too_large", limit=UNPACKED_MAX_BYTES, hint="upload the file in parts")
                batches.append(batch)
        table = pa.Table.from_batches(batches, schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise error("invalid_body", detail=f"not a Parquet file: {problem}") from None
    return table


def _refuse_repeated(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise error("invalid_body", detail=f'column "{name}" comes twice')


DECODERS: dict[str, Callable[[Body], Readings]] = {
    JSON: _decode_json,
    NDJSON: _decode_ndjson,
    CSV: _decode_csv,
    ARROW: _decode_arrow,
    PARQUET: _decode_parquet,
    **dict.fromkeys(("application/x-parquet", "application/parquet"), _decode_parquet),
}
