"""Readings as they arrive: JSON, NDJSON, CSV, Arrow and Parquet bodies become rows for `Database.push`.

A body that cannot be read at all is refused as a whole, saying where; single readings are judged later, by the
log. CSV knows only text, so every column stays text here and is cast by the table's own types.

A small body may stand for a large one. So each decoder first finds out how many rows and bytes it would make, as far as that
can be known without making them, and asks its `BodyLimits`: beyond the limits of a push it is refused, and beyond what the
caller has of the server's budget it raises `NeedsRoom`, to be called again with more.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from penstock.errors import PenstockError, error
from penstock.server.http.body_limits import Body
from penstock.server.http.unpacked_size import check_footer, measure_arrow, measure_parquet

Readings: TypeAlias = pa.Table | list[dict[str, Any]]

JSON = "application/json"
NDJSON = "application/x-ndjson"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
# What the readings of one push may take in memory.
UNPACKED_MAX_BYTES = 1 << 30
# So much is unpacked without asking the budget: sixteen threads do that at a time.
UNCOUNTED_BYTES = 1 << 20
COLUMNS_MAX = 4_096
CSV_HEADER_MAX_BYTES = 256 << 10
CSV_PARSE = pa_csv.ParseOptions(newlines_in_values=True)
# A thrift list or text of a Parquet footer that is longer is refused.
_FOOTER_LIST_MAX = 1 << 16
_FOOTER_TEXT_MAX = 4 << 20
_BATCH_ROWS = 8_192
# What Python takes for parts of JSON, at most: an object, an array, a value behind a comma, a key before a colon.
_OBJECT_BYTES, _ARRAY_BYTES, _VALUE_BYTES, _KEY_BYTES = 200, 72, 40, 100
# Of a smaller document not even the worst is worth counting.
_JSON_UNCOUNTED_BYTES = 16 << 10


class NeedsRoom(Exception):
    """The readings take so many bytes in memory, more than the caller has."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How many rows and bytes a body may become: the limits of a push, and what its caller holds of the budget."""

    max_rows: int
    size: int = UNCOUNTED_BYTES

    def check_rows(self, rows: int) -> None:
        if rows > self.max_rows:
            hint = "send it in smaller batches, or raise push_max_rows"
            raise error("too_many_rows", rows=rows, limit=self.max_rows, hint=hint)

    def check_size(self, size: int) -> None:
        if size > UNPACKED_MAX_BYTES:
            raise error("body_too_large", limit=UNPACKED_MAX_BYTES, hint="that is what it unpacks to; send it in parts")
        if size > self.size:
            raise NeedsRoom(size)


def decode_readings(body: Body, media_type: str, room: BodyLimits) -> Readings:
    """Rows of a body by its content type; invalid_body or unsupported_media_type where that fails."""
    decoder = DECODERS.get(media_type)
    if decoder is None:
        raise error("unsupported_media_type", media_type=media_type, hint="one of " + ", ".join(DECODERS))
    return decoder(body, room)


def parse_json(text: Body | str, room: BodyLimits) -> Any:
    """A JSON document that has room."""
    _check_json(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text, room)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise error("invalid_body", detail=f"not JSON: {problem}") from None


def json_size(data: Body) -> int:
    """Bytes that a document takes at most: each part of it begins with one of four characters."""
    parts = _OBJECT_BYTES * data.count(b"{") + _ARRAY_BYTES * data.count(b"[")
    # A text that has one wide character takes four bytes for each.
    texts = len(data) if data.isascii() and b"\\u" not in data else 4 * len(data)
    return parts + _VALUE_BYTES * data.count(b",") + _KEY_BYTES * data.count(b":") + texts


def _check_json(data: Body, room: BodyLimits) -> None:
    if len(data) > _JSON_UNCOUNTED_BYTES:
        room.check_size(json_size(data))


def rows_of_json(rows: Any, room: BodyLimits) -> Readings:
    """A reading or an array of them; invalid_body for anything else."""
    if isinstance(rows, dict):
        return [rows]
    if not isinstance(rows, list):
        raise error("invalid_body", detail="readings are an array of objects", hint='[{"sensor_id": 1, "ppm": 37.5}]')
    room.check_rows(len(rows))
    for index, row in enumerate(rows):
        if type(row) is not dict:
            raise _not_an_object(f"element {index}")
    return rows


def _decode_ndjson(body: Body, room: BodyLimits) -> Readings:
    room.check_rows(body.count(b"\n"))
    _check_json(body, room)
    rows: list[dict[str, Any]] = []
    loads = orjson.loads
    for number, line in enumerate(bytes(body).split(b"\n"), 1):
        if not line or line.isspace():
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


def _decode_csv(body: Body, room: BodyLimits) -> Readings:
    if not body.strip():
        raise error("invalid_body", detail="a CSV body starts with a line of column names")
    _check_csv_header(body)
    try:
        names = pa_csv.open_csv(pa.BufferReader(body), parse_options=CSV_PARSE).schema.names
        _refuse_repeated(names)
        # Each value has an offset, and a bit that says whether it is there.
        values = min(body.count(b"\n") + 1, room.max_rows) * len(names)
        room.check_size(len(body) + 5 * min(values, len(body)))
        with pa_csv.open_csv(pa.BufferReader(body), parse_options=CSV_PARSE, convert_options=as_text(names)) as reader:
            return _whole_table(reader, reader.schema, room)
    except pa.ArrowInvalid as problem:
        raise error("invalid_body", detail=f"not CSV: {problem}") from None


def as_text(names: list[str]) -> pa_csv.ConvertOptions:
    """As PostgreSQL reads CSV: nothing between the commas is NULL, "" is the empty text. The table's types decide what it means."""
    types = {name: pa.string() for name in names}
    return pa_csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )


def _check_csv_header(body: Body) -> None:
    """Arrow makes builders for as many columns as the first line has, so it is counted before."""
    start = bytes(body[:CSV_HEADER_MAX_BYTES]).decode("utf-8", "replace")
    lines = csv.reader(io.StringIO(start, newline=""))
    try:
        columns = len(next(lines, ()))
    except csv.Error as problem:
        raise error("invalid_body", detail=f"not CSV: {problem}") from None
    if len(body) > CSV_HEADER_MAX_BYTES and not _has_more(lines):
        raise error("invalid_body", detail=f"the line of column names has more than {CSV_HEADER_MAX_BYTES} bytes")
    _check_columns(columns)


def _has_more(lines: Iterator[list[str]]) -> bool:
    try:
        return next(lines, None) is not None
    except csv.Error:  # a value that is long for this reader, which is not the one that reads rows
        return True


def _check_columns(columns: int) -> None:
    if columns > COLUMNS_MAX:
        raise error("invalid_body", detail=f"there are {columns} columns; {COLUMNS_MAX} are the most")


def _decode_arrow(body: Body, room: BodyLimits) -> Readings:
    found = measure_arrow(body)
    room.check_rows(found.rows)
    room.check_size(found.size)
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            _check_columns(len(reader.schema))
            _refuse_shared(reader.schema)
            table = reader.read_all()
        # Offsets and lengths come from the sender: unchecked, they would let it read or crash our memory.
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise error("invalid_body", detail=f"not an Arrow stream: {problem}") from None
    _refuse_repeated(table.schema.names)
    # Columns of a batch may lie in the same bytes of the body, and are stored apart.
    shared = max(table.nbytes - len(body) - found.size, 0)
    room.check_size(found.size + shared + _values_size(table))
    return table


def _decode_parquet(body: Body, room: BodyLimits) -> Readings:
    check_footer(body)
    try:
        with pq.ParquetFile(
            pa.BufferReader(body),
            thrift_string_size_limit=_FOOTER_TEXT_MAX,
            thrift_container_size_limit=_FOOTER_LIST_MAX,
        ) as file:
            _check_columns(file.metadata.num_columns)
            schema = file.schema_arrow
            _refuse_repeated(schema.names)
            _refuse_shared(schema)
            room.check_rows(file.metadata.num_rows)
            room.check_size(measure_parquet(body, file, UNPACKED_MAX_BYTES))
            table = _whole_table(file.iter_batches(_BATCH_ROWS), schema, room)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise error("invalid_body", detail=f"not a Parquet file: {problem}") from None
    room.check_size(_values_size(table))
    return table


def _whole_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, room: BodyLimits) -> pa.Table:
    """The batches together, unless they become too many or too large on the way."""
    found: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rows += batch.num_rows
        size += batch.nbytes
        room.check_rows(rows)
        if size > UNPACKED_MAX_BYTES:
            room.check_size(size)
        found.append(batch)
    return pa.Table.from_batches(found, schema)


def _refuse_shared(schema: pa.Schema) -> None:
    """Refuse types with values that may share their bytes, except where `_values_size` knows what they take apart."""
    for field in schema:
        if _is_view(field.type) or pa.types.is_timestamp(field.type):  # the text of a time zone is the sender's
            continue
        inside = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if any(word in str(inside) for word in ("dictionary", "run_end_encoded", "_view", "extension")):
            raise error("invalid_body", detail=f'column "{field.name}": {inside} is not understood')


def _is_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(type_) or pa.types.is_binary_view(type_))


def _values_size(table: pa.Table) -> int:
    """Bytes of values that share theirs with others, once each has its own."""
    size = 0
    for chunk in (chunk for column in table.columns for chunk in column.chunks):
        if pa.types.is_dictionary(chunk.type):
            size += _dictionary_size(chunk)
        elif _is_view(chunk.type) and (views := chunk.buffers()[1]) is not None:
            # A view is 16 bytes, of which the first four are its length.
            lengths = np.frombuffer(views, np.int32)[chunk.offset * 4 : (chunk.offset + len(chunk)) * 4 : 4]
            size += int(np.maximum(lengths, 0).sum(dtype=np.int64))
    return size


def _dictionary_size(chunk: pa.DictionaryArray) -> int:
    values = chunk.dictionary
    kind = values.type
    if kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        lengths = pc.fill_null(pc.binary_length(values).cast(pa.int64()), 0)
        return int(pc.sum(lengths.take(chunk.indices)).as_py() or 0)
    if pa.types.is_nested(kind) or len(values) == 0:
        # At most what all values together take, for each row.
        return len(chunk) * int(values.nbytes)
    return len(chunk) * max(int(values.nbytes) // len(values), 1)


def _refuse_repeated(names: list[str]) -> None:
    _check_columns(len(names))
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise error("invalid_body", detail=f'column "{name}" comes twice')
        seen.add(name)


DECODERS: dict[str, Callable[[Body, BodyLimits], Readings]] = {
    JSON: lambda body, room: rows_of_json(parse_json(body, room), room),
    NDJSON: _decode_ndjson,
    CSV: _decode_csv,
    ARROW: _decode_arrow,
    PARQUET: _decode_parquet,
    **dict.fromkeys(("application/x-parquet", "application/parquet"), _decode_parquet),
}
