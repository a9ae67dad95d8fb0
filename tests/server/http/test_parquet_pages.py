"""What a Parquet file says about its pages: measured as the reader takes it, or refused."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock.server.http.unpacked_size import measure_parquet

LIMIT = 1 << 30
ROWS, LONG = 1_000, 20_000


def zigzag(number: int) -> bytes:
    number, found = number * 2, b""
    while number > 127:
        number, found = number >> 7, found + bytes([number & 127 | 128])
    return found + bytes([number])


def data_header(values: int, encoding: int) -> bytes:
    """A DataPageHeader of version 1."""
    return b"".join(b"\x15" + zigzag(n) for n in (values, encoding, 3, 3)) + b"\0"


def with_header(before: bytes = b"", after: bytes = b"", page: bytes = b"") -> bytes:
    """A file of one dictionary page and one page of version 2, whose header has more fields, behind one more page."""
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int8)), pa.array(["x" * LONG]))
    sink = io.BytesIO()
    options = {"data_page_version": "2.0", "write_statistics": False, "store_schema": False}
    pq.write_table(pa.table({"value": values}), sink, compression="zstd", **options)
    body = sink.getvalue()
    column = pq.ParquetFile(io.BytesIO(body)).metadata.row_group(0).column(0)
    at = column.data_page_offset
    end = column.dictionary_page_offset + column.total_compressed_size
    header = body.index(b"\x5c", at)  # field 8, five behind field 3
    # `before` is field 5: field 8 is then three behind it.
    field = b"\x2c" + before + b"\x3c" if before else b"\x5c"
    stop = body.index(b"\0", body.index(b"\x1c\0", header) + 1) + 1  # of an empty struct of statistics, of field 8
    stop = body.index(b"\0", stop)
    changed = page + body[at:header] + field + body[header + 1 : stop] + after + body[stop:end]
    size = int.from_bytes(body[-8:-4], "little")
    footer = body[-8 - size : -8]
    grown = column.total_compressed_size + len(changed) - (end - at)
    new = footer.replace(zigzag(column.total_compressed_size), zigzag(grown))
    return body[:at] + changed + new + len(new).to_bytes(4, "little") + b"PAR1"


def measured(body: bytes) -> int:
    file = pq.ParquetFile(io.BytesIO(body))
    assert next(file.iter_batches(1)).num_rows == 1  # the reader takes it
    return measure_parquet(body, file, LIMIT)


def test_the_long_value_of_a_dictionary_counts_for_each_row() -> None:
    assert measured(with_header()) >= ROWS * LONG


def test_only_the_header_of_the_pages_own_kind_counts() -> None:
    assert measured(with_header(before=data_header(ROWS, 0))) >= ROWS * LONG


def test_a_page_that_the_reader_skips_stands_for_no_values() -> None:
    index_page = (
        b"\x15" + zigzag(1) + b"\x15" + zigzag(0) + b"\x15" + zigzag(0) + b"\x2c" + data_header(ROWS, 0) + b"\0"
    )
    assert measured(with_header(page=index_page)) >= ROWS * LONG


def test_a_list_that_is_longer_than_the_file_is_refused() -> None:
    booleans = b"\xc9\xf1" + zigzag(50_000)  # field 20; 100 000 elements
    body = with_header(after=booleans)
    with pytest.raises(PenstockError, match="more elements than bytes"):
        measure_parquet(body, pq.ParquetFile(io.BytesIO(body)), LIMIT)


def test_a_field_that_comes_twice_is_refused() -> None:
    again = b"\x06" + zigzag(2) + zigzag(1)  # field 2 as I64
    body = with_header(after=again)
    with pytest.raises(PenstockError, match="comes twice"):
        measure_parquet(body, pq.ParquetFile(io.BytesIO(body)), LIMIT)
