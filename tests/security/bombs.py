"""Small bodies that would become large ones. Made without ever having the large ones in the test's own memory."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MB = 1 << 20
# One value of so many bytes; columns and batches of it are as many times that.
LONG = 64 * MB


def arrow_stream(table: pa.Table, codec: str | None = None, times: int = 1) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for _ in range(times):
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


def long_values(columns: int) -> pa.Table:
    value = pa.array([bytes(LONG)], pa.large_binary())
    return pa.table({"id": [1], **{f"value{n}": value for n in range(columns)}})


@cache
def arrow_columns(codec: str) -> bytes:
    return arrow_stream(long_values(20), codec)


def arrow_batches() -> bytes:
    return arrow_stream(long_values(1), "zstd", times=20)


def arrow_dictionary() -> bytes:
    indices = pa.array(np.zeros(500_000, np.int8))
    values = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 20_000]))
    return arrow_stream(pa.table({"id": pa.nulls(500_000), "value": values}), "zstd")


def arrow_pieces() -> bytes:
    empty = pa.table({"id": pa.array([], pa.int64()), "value": pa.array([], pa.float64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, empty.schema) as writer:
        for _ in range(40_000):
            writer.write_batch(
                pa.RecordBatch.from_arrays([c.combine_chunks() for c in empty.columns], schema=empty.schema)
            )
    return sink.getvalue().to_pybytes()


def arrow_runs() -> bytes:
    ends = pa.array([900_000], pa.int32())
    values = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["x" * 20_000]))
    return arrow_stream(pa.table({"id": pa.nulls(900_000), "value": values}))


def arrow_views() -> bytes:
    # 900 000 views of the same 20 000 bytes: length, four bytes of it, which buffer, where in it.
    view = np.array([20_000, 0x78787878, 0, 0], np.int32).tobytes()
    buffers = [None, pa.py_buffer(view * 900_000), pa.py_buffer(b"x" * 20_000)]
    values = pa.Array.from_buffers(pa.string_view(), 900_000, buffers)
    return arrow_stream(pa.table({"id": pa.nulls(900_000), "value": values}), "zstd")


def arrow_lying(announced: int) -> bytes:
    """A stream one of whose buffers announces another length than it has."""
    body = bytearray(arrow_stream(pa.table({"id": [1], "value": [b"\0" * 100_000]}), "zstd"))
    at = body.rindex((100_000).to_bytes(8, "little", signed=True))
    body[at : at + 8] = announced.to_bytes(8, "little", signed=True)
    return bytes(body)


def parquet_file(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", **options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet_pages() -> bytes:
    return parquet_file(long_values(20), use_dictionary=False, write_statistics=False)


def parquet_dictionary() -> bytes:
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(500_000, np.int8)), pa.array(["x" * 20_000]))
    return parquet_file(pa.table({"id": pa.nulls(500_000, pa.int64()), "value": values}))


def parquet_deltas() -> bytes:
    start = "x" * 200_000
    values = pa.array([f"{start}{n}" for n in range(200)]).take(pa.array(np.arange(200)))
    table = pa.table({"id": np.arange(200), "value": values})
    sink = io.BytesIO()
    encoding = {"id": "PLAIN", "value": "DELTA_BYTE_ARRAY"}
    options = {"use_dictionary": False, "column_encoding": encoding, "write_statistics": False}
    with pq.ParquetWriter(sink, table.schema, compression="zstd", **options) as writer:
        for _ in range(30):
            writer.write_table(table)
    return sink.getvalue()


def parquet_rows() -> bytes:
    return parquet_file(pa.table({"id": pa.nulls(50_000_000, pa.int8())}))


def csv_columns() -> bytes:
    names = ",".join(f"c{n}" for n in range(100_000))
    return f"{names}\n{',' * 99_999}\n".encode()


def csv_header() -> bytes:
    return b"," * (40 * MB) + b"\n"


def csv_rows() -> bytes:
    return b"id,value\n" + b"1,\n" * (10 * MB)


def json_objects() -> bytes:
    return b"[" + b"{}," * (20 * MB) + b"{}]"


def json_arrays() -> bytes:
    return b'[{"id": 1, "value": [' + b"[]," * (20 * MB) + b"[]]}]"


def json_nested() -> bytes:
    return b"[" * (10 * MB) + b"]" * (10 * MB)


def ndjson_lines() -> bytes:
    return b"\n" * (60 * MB)


def ndjson_objects() -> bytes:
    return b"{}\n" * (20 * MB)


def gzip_zeros(size: int) -> bytes:
    return gzip.compress(bytes(size), 9)


def gzip_lying() -> bytes:
    packed = bytearray(gzip.compress(bytes(200 * MB), 1))
    packed[-4:] = (1000).to_bytes(4, "little")
    return bytes(packed)


def gzip_bad_lines() -> bytes:
    return gzip.compress(b"x\n" * (30 * MB), 1)


def gzip_good_lines() -> bytes:
    return gzip.compress(b"m v=1\n" * (10 * MB), 1)


def gzip_wide_lines() -> bytes:
    """One wide character makes a text of narrow ones four times as large."""
    return gzip.compress(b"x" * (60 * MB) + "\U0001f600\n".encode(), 1)


ARROW, PARQUET, CSV = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet", "text/csv"
JSON, NDJSON = "application/json", "application/x-ndjson"

# Name -> (content type, what makes it, the conditions that refuse it).
PUSHES: dict[str, tuple[str, Callable[[], bytes], set[str]]] = {
    "arrow, zstd": (ARROW, lambda: arrow_columns("zstd"), {"body_too_large"}),
    "arrow, lz4": (ARROW, lambda: arrow_columns("lz4"), {"body_too_large"}),
    "arrow, many batches": (ARROW, arrow_batches, {"body_too_large"}),
    "arrow, empty batches": (ARROW, arrow_pieces, {"invalid_body"}),
    "arrow, one value for all rows": (ARROW, arrow_dictionary, {"body_too_large"}),
    "arrow, one run for all rows": (ARROW, arrow_runs, {"invalid_body"}),
    "arrow, one view for all rows": (ARROW, arrow_views, {"body_too_large"}),
    "arrow, announces a terabyte": (ARROW, lambda: arrow_lying(1 << 40), {"body_too_large"}),
    "arrow, announces less than nothing": (ARROW, lambda: arrow_lying(-5), {"invalid_body"}),
    "arrow, announces too little": (ARROW, lambda: arrow_lying(5), {"invalid_body"}),
    "parquet, long values": (PARQUET, parquet_pages, {"body_too_large"}),
    "parquet, one value for all rows": (PARQUET, parquet_dictionary, {"body_too_large"}),
    "parquet, each value like the one before": (PARQUET, parquet_deltas, {"body_too_large"}),
    "parquet, many rows": (PARQUET, parquet_rows, {"too_many_rows"}),
    "csv, many columns": (CSV, csv_columns, {"invalid_body"}),
    "csv, long header": (CSV, csv_header, {"invalid_body"}),
    "csv, many rows": (CSV, csv_rows, {"too_many_rows"}),
    "json, empty objects": (JSON, json_objects, {"body_too_large"}),
    "json, empty arrays": (JSON, json_arrays, {"body_too_large"}),
    "json, nested": (JSON, json_nested, {"body_too_large", "invalid_body"}),
    "ndjson, empty lines": (NDJSON, ndjson_lines, {"too_many_rows"}),
    "ndjson, empty objects": (NDJSON, ndjson_objects, {"too_many_rows"}),
}
MANY_BAD_LINES = b"x\n" * 500_000

LINES: dict[str, tuple[Callable[[], bytes], set[int]]] = {
    "gzip, large": (lambda: gzip_zeros(200 * MB), {413}),
    "gzip, says less": (gzip_lying, {400}),
    "gzip, bad lines": (gzip_bad_lines, {413}),
    "gzip, lines of no table": (gzip_good_lines, {413}),
    "gzip, bad lines within the limit": (lambda: gzip.compress(MANY_BAD_LINES), {400}),
    "gzip, one line": (gzip_wide_lines, {400}),
}
