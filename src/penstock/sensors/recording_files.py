"""Recordings on disk, read piece by piece: CSV and Parquet files as batches of rows, never whole.

A CSV file has a header line; its values stay texts until they are packed for the log. An address may choose
rows: `loops.csv?sensor=6005&lane=2` keeps those that have these values in these columns.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import parse_qsl

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from penstock.clock import parse_timestamp
from penstock.errors import error, suggest
from penstock.sensors.address_rules import SensorFiles

_BLOCK_BYTES = 1 << 18
_BATCH_ROWS = 8192
_UTC = pa.timestamp("us", tz="UTC")
UNITS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True)
class Address:
    """A file, and which of its rows."""

    path: str
    chosen: Mapping[str, str]


def parse_address(text: str) -> Address:
    path, _, query = text.partition("?")
    return Address(path, dict(parse_qsl(query, keep_blank_values=True)))


class Recording:
    """A file that is open for reading. `skipped` counts lines that are too long or have the wrong number of values."""

    def __init__(self, address: Address, files: SensorFiles, line_max_bytes: int) -> None:
        self.address = address
        self.name = PurePosixPath(address.path).name
        # A line of more than a block would end the whole file with an error of the CSV reader.
        self.line_max_bytes = min(line_max_bytes, _BLOCK_BYTES)
        self.skipped = 0
        self.too_long = 0
        self._files = files
        self._file: BinaryIO | None = None
        self._is_parquet = address.path.lower().endswith((".parquet", ".pq"))
        self.columns = self._read_columns()
        for name in address.chosen:
            self.require(name)
        self._open: arrow_csv.CSVStreamingReader | parquet.ParquetFile | None = None

    def require(self, column: str) -> None:
        if column not in self.columns:
            hint = suggest(column, self.columns) or "its columns are " + ", ".join(self.columns)
            raise error("column_not_found", table=self.name, column=column, hint=hint)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """The chosen rows from the beginning, with these columns in this order."""
        needed = list(dict.fromkeys([*columns, *self.address.chosen]))
        self.close()
        self._file = self._files.open(self.address.path)
        for batch in (
            self._parquet_batches(self._file, needed) if self._is_parquet else self._csv_batches(self._file, needed)
        ):
            for name, value in self.address.chosen.items():
                batch = batch.filter(pc.equal(batch.column(name).cast(pa.string()), value))
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.select(columns).slice(start, _BATCH_ROWS)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_columns(self) -> list[str]:
        with self._files.open(self.address.path) as file:
            if self._is_parquet:
                with parquet.ParquetFile(file) as found:
                    return list(found.schema_arrow.names)
            header = file.readline(self.line_max_bytes + 1)
        if len(header) > self.line_max_bytes:
            detail = f'the first line of "{self.name}" has more than {self.line_max_bytes} bytes (line_max_bytes)'
            raise error("invalid_body", detail=detail)
        return [name.strip() for name in next(csv.reader([header.decode("utf-8-sig")]), [])]

    def _parquet_batches(self, file: BinaryIO, needed: list[str]) -> Iterator[pa.RecordBatch]:
        found = self._open = parquet.ParquetFile(file)
        yield from found.iter_batches(_BATCH_ROWS, columns=needed)

    def _csv_batches(self, file: BinaryIO, needed: list[str]) -> Iterator[pa.RecordBatch]:
        lines = io.BufferedReader(BoundedLines(file, self.line_max_bytes, self._skip_long), _BLOCK_BYTES)
        reader = self._open = arrow_csv.open_csv(
            lines,
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, column_names=self.columns, skip_rows=1
            ),
            parse_options=arrow_csv.ParseOptions(invalid_row_handler=self._skip, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=needed,
                column_types={name: pa.string() for name in needed},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        yield from reader

    def _skip_long(self) -> None:
        self.skipped += 1
        self.too_long += 1

    def _skip(self, row: Any) -> str:
        self.skipped += 1
        return "skip"


def read_times(column: pa.Array, unit: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds of a column of times, and which of them could be read.

    Texts are ISO 8601 (UTC where they name no zone) or numbers in the unit, and so are numeric columns.
    """
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parse_times(column.cast(pa.string()), unit)
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    elif pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    else:
        column = pc.cast(pc.multiply(column.cast(pa.float64()), UNITS_US[unit]), pa.int64(), safe=False)
    good = np.asarray(column.is_valid())
    whole = pc.fill_null(column.cast(pa.int64()), 0)
    return np.asarray(whole, dtype=np.int64), good


def _parse_times(texts: pa.Array, unit: str) -> pa.Array:
    for wanted in (pa.timestamp("us"), _UTC):
        try:
            return texts.cast(wanted)
        except pa.ArrowInvalid:
            continue
    return pa.array([_parse_time(text, unit) for text in texts.to_pylist()], pa.int64())


def _parse_time(text: str | None, unit: str) -> int | None:
    """The slow path, for a column that mixes spellings or holds something that is no time."""
    if text is None:
        return None
    try:
        return parse_timestamp(text)
    except ValueError:
        pass
    try:
        return round(float(text) * UNITS_US[unit])
    except (ValueError, OverflowError):
        return None


_CHUNK_BYTES = 1 << 16


class BoundedLines(io.RawIOBase):
    """Reads as the file would without its long lines; `skipped` is called once for each of them."""

    def __init__(self, file: BinaryIO, most_bytes: int, skipped: Callable[[], None]) -> None:
        self._file = file
        self._most = most_bytes
        self._skipped = skipped
        # At most as long as a line may be: then only the first line of a chunk can be too long.
        self._chunk_bytes = max(1, min(_CHUNK_BYTES, most_bytes))
        self._begun = b""  # a line up to where it has been read
        self._skipping = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            chunk = self._file.read(self._chunk_bytes)
            if not chunk:
                self._ready, self._begun = memoryview(self._begun), b""
                break
            self._ready = memoryview(self._whole_lines(chunk))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _whole_lines(self, chunk: bytes) -> bytes:
        """What is known to belong to lines that are short enough."""
        if self._skipping:
            _, end, chunk = chunk.partition(b"\n")
            self._skipping = not end
        data = self._begun + chunk
        if data.find(b"\n", 0, self._most + 1) < 0 and len(data) > self._most:
            self._skipped()
            _, end, data = data.partition(b"\n")
            self._skipping = not end
        last = data.rfind(b"\n") + 1
        self._begun = data[last:]
        return data[:last]
