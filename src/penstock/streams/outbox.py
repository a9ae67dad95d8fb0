"""Readings on their way from opened sensors to ingest: gathered per table, pushed together, kept until stored.

One push per table is under way at a time; what is read meanwhile makes up the next one. A push that could not
be stored (a full disk) is repeated as it is, so no reading is lost or overtaken; sensors of the table wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.catalog.model import Table
from penstock.errors import PenstockError
from penstock.sensors.base import Reading, Row
from penstock.streams.opened import OpenedSensor
from penstock.streams.receipt import Receipt
from penstock.types import Field

_LOGGER = logging.getLogger(__name__)
_MOST_ROWS = 65_536
_RETRY_S = 1.0
_PASSING = {"disk_full", "too_busy", "not_ready", "engine_failed"}


class ReadingSink(Protocol):
    """What the outbox needs of `streams.ingest.Ingest`."""

    def push_resolved(
        self, table: Table, sids: NDArray[np.int32], ts_us: NDArray[np.int64] | None, columns: Sequence[pa.Array]
    ) -> Future[Receipt]:
        """Store readings of known sensors; columns in the order of the stream's fields."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read gave, with the time at which it was read."""

    source: OpenedSensor
    reading: Reading
    read_us: int


@dataclass(frozen=True, slots=True)
class Parcel:
    """Arrays ready for ingest."""

    sids: NDArray[np.int32]
    ts_us: NDArray[np.int64] | None
    columns: tuple[pa.Array, ...]


class Outbox:
    """The readings of one table that are not stored yet. Chunks come from polling threads, `send` from one thread."""

    def __init__(self, table: Table, sink: ReadingSink, wake: Callable[[], None], most_rows: int = 4 * _MOST_ROWS):
        self.table = table
        self._sink = sink
        self._wake = wake
        self._most_rows = most_rows
        self._lock = threading.Lock()
        self._chunks: list[Chunk] = []
        self._rows = 0
        self._parcel: Parcel | None = None
        self._future: Future[Receipt] | None = None
        self._retry_at_s = 0.0
        self.lost = 0
        self.last_error: str | None = None

    @property
    def is_full(self) -> bool:
        return self._rows >= self._most_rows

    @property
    def is_empty(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self._chunks and self._parcel is None

    @property
    def is_sent(self) -> bool:
        """Everything was handed to ingest, whether it is stored yet or not."""
        return not self._chunks and (self._parcel is None or self._future is not None)

    def add(self, chunk: Chunk) -> None:
        with self._lock:
            self._chunks.append(chunk)
            self._rows += chunk.reading.count

    def send(self, now_s: float) -> None:
        """Take note of a finished push and start the next one."""
        if self._future is not None:
            if not self._future.done():
                return
            self._finish(self._future, now_s)
        if self._parcel is None:
            self._parcel = self._pack()
        if self._parcel is None or now_s < self._retry_at_s:
            return
        try:
            self._future = self._sink.push_resolved(
                self.table, self._parcel.sids, self._parcel.ts_us, self._parcel.columns
            )
        except Exception as cause:
            self._refused(cause, now_s)
        else:
            self._future.add_done_callback(lambda _: self._wake())

    def _finish(self, future: Future[Receipt], now_s: float) -> None:
        self._future = None
        cause = future.exception()
        if cause is None:
            self._parcel = None
        else:
            self._refused(cause, now_s)

    def _refused(self, cause: BaseException, now_s: float) -> None:
        """Keep the parcel for another try where the cause will pass, give it up where it will not."""
        passing = isinstance(cause, OSError) or (isinstance(cause, PenstockError) and cause.condition in _PASSING)
        self.last_error = str(cause)
        if passing:
            self._retry_at_s = now_s + _RETRY_S
            return
        assert self._parcel is not None
        self.lost += len(self._parcel.sids)
        _LOGGER.error("%d readings of table %s were refused: %s", len(self._parcel.sids), self.table.name, cause)
        self._parcel = None

    def _pack(self) -> Parcel | None:
        with self._lock:
            taken: list[Chunk] = []
            rows = 0
            for chunk in self._chunks:
                if taken and rows + chunk.reading.count > _MOST_ROWS:
                    break
                taken.append(chunk)
                rows += chunk.reading.count
            del self._chunks[: len(taken)]
            self._rows -= rows
        return pack(self.table, taken) if taken else None


def pack(table: Table, chunks: list[Chunk]) -> Parcel | None:
    """Arrays of many readings in the order in which they were read. A sensor whose values do not fit its
    fields is told so, and its reading left out."""
    assert table.stream is not None
    fields = table.stream.fields
    try:
        columns = _columns(fields, chunks)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        chunks = [chunk for chunk in chunks if _fits(fields, chunk)]
        columns = _columns(fields, chunks)
    if not chunks:
        return None
    counts = [chunk.reading.count for chunk in chunks]
    sids = np.repeat(np.array([chunk.source.sid for chunk in chunks], dtype=np.int32), counts)
    if table.options.time == "transaction":
        return Parcel(sids, None, columns)
    ts_us = np.empty(len(sids), dtype=np.int64)
    at = 0
    for chunk, count in zip(chunks, counts, strict=True):
        times = chunk.reading.times_us
        ts_us[at : at + count] = chunk.read_us if times is None else times
        at += count
    return Parcel(sids, ts_us, columns)


def _fits(fields: tuple[Field, ...], chunk: Chunk) -> bool:
    try:
        _columns(fields, [chunk])
        times = chunk.reading.times_us
        if times is not None and len(times) != chunk.reading.count:
            raise ValueError(f"{chunk.reading.count} rows came with {len(times)} times")
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        chunk.source.note_error(f"its values do not fit its fields: {cause}", chunk.read_us, chunk.reading.count)
        return False
    return True


def _columns(fields: tuple[Field, ...], chunks: list[Chunk]) -> tuple[pa.Array, ...]:
    """One array per field, NULL where a chunk was read before the field existed."""
    pieces: list[list[pa.Array]] = [[] for _ in fields]
    rows: list[Row] = []
    for chunk in chunks:
        if chunk.reading.batch is None:
            rows.extend(chunk.reading.rows)
            continue
        _append_rows(fields, pieces, rows)
        rows = []
        batch = chunk.reading.batch
        if batch.num_columns > len(fields):
            raise ValueError(f"{batch.num_columns} values for {len(fields)} fields")
        for number, field in enumerate(fields):
            if number < batch.num_columns:
                pieces[number].append(batch.column(number).cast(field.type.to_arrow()))
            else:
                pieces[number].append(pa.nulls(batch.num_rows, field.type.to_arrow()))
    _append_rows(fields, pieces, rows)
    return tuple(
        pa.concat_arrays(parts) if parts else pa.array([], field.type.to_arrow())
        for parts, field in zip(pieces, fields, strict=True)
    )


def _append_rows(fields: tuple[Field, ...], pieces: list[list[pa.Array]], rows: list[Row]) -> None:
    if not rows:
        return
    width = len(rows[0])
    if width > len(fields) or any(len(row) != width for row in rows):
        rows = [_widen(row, len(fields)) for row in rows]
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for number, field in enumerate(fields):
        if number < len(columns):
            pieces[number].append(pa.array(columns[number], type=field.type.to_arrow(), from_pandas=False))
        else:
            pieces[number].append(pa.nulls(len(rows), field.type.to_arrow()))


def _widen(row: Row, width: int) -> Row:
    if len(row) > width:
        raise ValueError(f"{len(row)} values for {width} fields")
    return (*row, *([None] * (width - len(row))))
