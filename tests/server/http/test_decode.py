"""Bodies that unpack to more than they are: measured before they are unpacked, and never a surprise."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.server.http import decode
from penstock.server.http.decode import ARROW, CSV, JSON, NDJSON, PARQUET, BodyLimits, NeedsRoom, decode_readings
from penstock.server.http.unpacked_size import _Table
from penstock.settings import Settings
from penstock.streams.ingest.readings import IngestReceipt
from tests.security.bombs import arrow_stream, parquet_file
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase

MB = 1 << 20
AMPLE = BodyLimits(1_000_000, 1 << 30)


@pytest.fixture
def one_mb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "UNPACKED_MAX_BYTES", MB)


def refused(body: bytes, media_type: str, room: BodyLimits = AMPLE) -> str:
    with pytest.raises(PenstockError) as caught:
        decode_readings(body, media_type, room)
    return caught.value.condition


@pytest.mark.parametrize("media_type", [ARROW, PARQUET])
def test_a_list_of_many_equal_values_is_measured(one_mb: None, media_type: str) -> None:
    table = pa.table({"id": [1], "value": pa.array([np.zeros(2 * MB)])})
    body = arrow_stream(table, "zstd") if media_type == ARROW else parquet_file(table)
    assert len(body) < 100_000
    assert refused(body, media_type) == "body_too_large"


def test_a_dictionary_that_could_be_too_much_and_is_not_is_read(one_mb: None) -> None:
    names = [f"{n:0200d}" for n in range(100)]
    table = pa.table({"id": np.arange(2_000), "name": names * 20})
    assert decode_readings(parquet_file(table), PARQUET, AMPLE) == table
    packed = pa.table({"id": np.arange(2_000), "name": pa.array(names * 20).dictionary_encode()})
    assert decode_readings(arrow_stream(packed, "lz4"), ARROW, AMPLE) == packed
    assert refused(parquet_file(pa.concat_tables([table] * 4)), PARQUET) == "body_too_large"


def test_files_of_other_writers_are_read(one_mb: None) -> None:
    table = pa.table({"id": np.arange(500), "name": [f"a name like the one before {n}" for n in range(500)]})
    deltas = {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY"}}
    for options in ({"data_page_version": "2.0"}, {"use_dictionary": False}, {"write_page_index": True}, deltas):
        assert decode_readings(parquet_file(table, **options), PARQUET, AMPLE) == table


def test_what_unpacks_to_more_than_there_is_room_for_asks_for_it() -> None:
    table = pa.table({"id": np.arange(400_000)})
    for body, media_type in ((arrow_stream(table, "zstd"), ARROW), (parquet_file(table), PARQUET)):
        with pytest.raises(NeedsRoom) as need:
            decode_readings(body, media_type, BodyLimits(1_000_000))
        assert 3 * MB <= need.value.size <= 16 * MB
        assert decode_readings(body, media_type, BodyLimits(1_000_000, need.value.size)).num_rows == 400_000


def test_one_wide_character_makes_a_text_four_times_as_large() -> None:
    narrow = b'[{"id": 1, "text": "' + b"x" * MB + b'"}]'
    for wide in (narrow.replace(b"x", "\U0001f600".encode(), 1), narrow.replace(b"x", b"\\ud83d\\ude00", 1)):
        with pytest.raises(NeedsRoom) as need:
            decode_readings(wide, JSON, BodyLimits(10))
        assert need.value.size > 4 * MB
    with pytest.raises(NeedsRoom) as need:
        decode_readings(narrow, JSON, BodyLimits(10))
    assert need.value.size < 2 * MB


def test_the_budget_has_what_bodies_unpack_to() -> None:
    held: list[int] = []

    class Noting(FakeDatabase):
        def push(self, *arguments: Any) -> IngestReceipt:
            held.append(budget.used)
            return super().push(*arguments)

    http = Http(Noting(), Settings())
    budget = http.app.state.context.budget
    body = arrow_stream(pa.table({"sensor_id": np.ones(400_000, np.int64)}), "zstd")
    answer = http.post("/v1/tables/sensors/readings", content=body, headers={"Content-Type": ARROW})
    assert answer.status_code == 200
    assert held == [len(body) + 400_000 * 8] and budget.used == 0
    http.close()


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"[" + b"{}," * 10 + b"{}]", JSON),
        (b"{}\n" * 11, NDJSON),
        (b"id\n" + b"1\n" * 11, CSV),
        (arrow_stream(pa.table({"id": pa.nulls(11)})), ARROW),
        (parquet_file(pa.table({"id": np.arange(11)})), PARQUET),
    ],
)
def test_eleven_rows_are_more_than_ten(body: bytes, media_type: str) -> None:
    assert refused(body, media_type, BodyLimits(10)) == "too_many_rows"
    assert len(decode_readings(body, media_type, BodyLimits(11))) == 11


def test_a_hundred_thousand_columns_are_refused_at_once() -> None:
    names = [f"c{n}" for n in range(5_000)]
    line = ",".join(names).encode()
    assert refused(line + b"\n" + b"," * 4_999, CSV) == "invalid_body"
    quoted = b'"a\n' + line + b'"\n1\n'
    assert decode_readings(quoted, CSV, AMPLE).num_columns == 1
    table = pa.table({name: [1] for name in names})
    assert refused(arrow_stream(table), ARROW) == "invalid_body"
    assert refused(parquet_file(table), PARQUET) == "invalid_body"


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 500 + b"1" + b"]" * 500])
def test_what_is_nested_too_deep_is_refused(text: bytes) -> None:
    assert refused(text, JSON) == "invalid_body"
    assert refused(text, NDJSON) == "invalid_body"


def test_damaged_files_are_refused_by_name() -> None:
    chance = random.Random(14)
    table = pa.table(
        {
            "id": np.arange(50),
            "value": np.full(50, 1.5),
            "text": ["abc", "defg"] * 25,
            "packed": pa.array(["x", "y"] * 25).dictionary_encode(),
            "list": [[1, 2], [3]] * 25,
        }
    )
    bodies = [(arrow_stream(table, codec), ARROW) for codec in (None, "zstd", "lz4")]
    bodies += [(parquet_file(table, **options), PARQUET) for options in ({}, {"data_page_version": "2.0"})]
    outcomes: set[Any] = set()
    for _ in range(600):
        whole, media_type = chance.choice(bodies)
        body = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        if chance.random() < 0.2:
            del body[chance.randrange(len(body)) :]
        try:
            decode_readings(bytes(body), media_type, AMPLE)
            outcomes.add("read")
        except PenstockError as problem:
            outcomes.add(problem.condition)
    assert outcomes <= {"read", "invalid_body", "body_too_large", "too_many_rows"}


def test_columns_that_share_their_bytes_count_each() -> None:
    columns, size = 20, MB // 2
    table = pa.table({f"c{n}": [bytes(size if n == 0 else 0)] for n in range(columns)})
    body = bytearray(arrow_stream(table))
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(bytes(body)))
    messages.read_next_message()
    metadata = bytearray(messages.read_next_message().metadata)
    place = body.index(metadata)
    batch = _Table.root(memoryview(bytes(metadata))).table(2)
    assert batch is not None
    begin, count = batch.vector(2)
    each = count // columns * 16
    metadata[begin : begin + count * 16] = metadata[begin : begin + each] * columns
    body[place : place + len(metadata)] = metadata
    assert decode_readings(bytes(body), ARROW, AMPLE).num_rows == 1  # type: ignore[union-attr]
    with pytest.raises(NeedsRoom) as need:
        decode_readings(bytes(body), ARROW, BodyLimits(10))
    assert need.value.size >= (columns - 2) * size  # the body has one, and its headers


def test_a_long_value_of_csv_is_a_value() -> None:
    value = "x" * 300_000
    found = decode_readings(f'id,value\n1,"{value}"\n'.encode(), CSV, AMPLE)
    assert isinstance(found, pa.Table) and found.to_pylist() == [{"id": "1", "value": value}]


def test_compression_as_old_arrow_wrote_it_is_refused() -> None:
    table = pa.table({"value": [bytes(8 * MB)]})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4, compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_batch(table.to_batches()[0], custom_metadata={"ARROW:experimental_compression": "zstd"})
    body = bytearray(sink.getvalue().to_pybytes())
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(bytes(body)))
    messages.read_next_message()
    metadata = bytes(messages.read_next_message().metadata)
    batch = _Table.root(memoryview(metadata)).table(2)
    assert batch is not None and batch.table(3) is not None
    place = body.index(metadata) + batch._fields + 10
    body[place : place + 2] = b"\0\0"  # what says today that buffers are compressed
    assert pa.ipc.open_stream(bytes(body)).read_all().nbytes > 8 * MB  # the reader takes it
    assert refused(bytes(body), ARROW, BodyLimits(10)) == "invalid_body"
