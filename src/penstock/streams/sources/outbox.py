"""Readings on their way from opened sensors to ingest: gathered per table, pushed together, kept until stored.

One push per table is under way at a time; what is read meanwhile makes up the next one. A push that could not
be stored (a full disk) is repeated as it is, so no reading is lost or overtaken; sensors of the table wait.

Readings go in the order of their times, each sensor's own as it gave them. A reading with values that do not fit its
fields is left out and counted against its sensor, so that one bad sensor spoils no other sensor's readings.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.catalog.model import Table
from penstock.errors import PenstockError
from penstock.sensors.base import Reading, Row
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.ingest.values import column_from_arrow, column_from_values
from penstock.streams.sources.sensor_state import OpenedSensor
from penstock.types import Field


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """What one read gave, with the time at which it was read."""

    source: OpenedSensor
    reading: Reading
    read_us: int


@dataclass(frozen=True, slots=True)
class ReadingArrays:
    """Readings of several sensors as arrays, ready for ingest."""

    sids: NDArray[np.int32]
    ts_us: NDArray[np.int64] | None
    columns: tuple[pa.Array, ...]


def pack(table: Table, chunks: list[ReadChunk]) -> ReadingArrays | None:
    """One parcel of all chunks; None where nothing of them is good."""
    assert table.stream is not None
    fields = table.stream.fields
    chunks = [chunk for chunk in chunks if _has_shape(fields, chunk)]
    if not chunks:
        return None
    problems: dict[int, str] = {}
    columns = _columns(fields, chunks, problems)
    counts = [chunk.reading.count for chunk in chunks]
    sids = np.repeat(np.array([chunk.source.sid for chunk in chunks], dtype=np.int32), counts)
    ts_us = _times(chunks, counts) if table.options.time == "valid" else None
    if problems:
        _complain(chunks, counts, problems)
        good = np.ones(len(sids), dtype=np.bool_)
        good[list(problems)] = False
        if not good.any():
            return None
        kept = pa.array(good)
        sids, columns = sids[good], tuple(c.filter(kept) for c in columns)
        ts_us = None if ts_us is None else ts_us[good]
    order = None if ts_us is None else _across_sensors(sids, ts_us)
    if ts_us is None or order is None:
        return ReadingArrays(sids, ts_us, columns)
    taken = pa.array(order)
    return ReadingArrays(sids[order], ts_us[order], tuple(c.take(taken) for c in columns))


def _across_sensors(sids: NDArray[np.int32], ts_us: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The order in which readings of several sensors happened; None where they are in it.

    They were read together, so which sensor was asked first means nothing: without this, a sensor that was asked later would be
    late. A sensor's own readings stay as it gave them, whatever their times: that they are out of order is for ingest to see.
    """
    if np.all(ts_us[1:] >= ts_us[:-1]):
        return None
    by_sensor = np.argsort(sids, kind="stable")
    times = ts_us[by_sensor]
    ends = np.flatnonzero(np.append(np.diff(sids[by_sensor]) != 0, True)) + 1
    backwards = np.diff(times) < 0
    backwards[ends[:-1] - 1] = False
    if backwards.any():
        for start, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            np.maximum.accumulate(times[start:end], out=times[start:end])
    moments = np.empty_like(times)
    moments[by_sensor] = times
    return np.argsort(moments, kind="stable")


def _has_shape(fields: tuple[Field, ...], chunk: ReadChunk) -> bool:
    """Whether rows, times and values are as many as they should be. Fields may have been added since the read."""
    reading = chunk.reading
    widths = {reading.batch.num_columns} if reading.batch is not None else {len(row) for row in reading.rows}
    problem = None
    if len(widths) != 1 or not 0 < max(widths) <= len(fields):
        problem = f"{', '.join(map(str, sorted(widths)))} values for {len(fields)} fields"
    elif reading.times_us is not None and len(reading.times_us) != reading.count:
        problem = f"{reading.count} rows with {len(reading.times_us)} times"
    if problem is not None:
        chunk.source.note_error(problem, chunk.read_us, reading.count)
    return problem is None


def _columns(fields: tuple[Field, ...], chunks: list[ReadChunk], problems: dict[int, str]) -> tuple[pa.Array, ...]:
    pieces: list[list[pa.Array]] = [[] for _ in fields]
    at = 0
    for (is_batch, texts, width), group in groupby(chunks, _form):
        runs: list[tuple[int, list[Any]]] = []
        if is_batch:
            for chunk in group:
                assert chunk.reading.batch is not None
                runs.append((chunk.reading.count, list(chunk.reading.batch.columns)))
        else:
            rows: list[Row] = [row for chunk in group for row in chunk.reading.rows]
            runs.append((len(rows), list(zip(*rows, strict=True))))
        for count, columns in runs:
            for number, field in enumerate(fields):
                column = columns[number] if number < width else None
                pieces[number].append(_column(field, column, count, texts, at, problems))
            at += count
    return tuple(pa.concat_arrays(parts) for parts in pieces)


def _form(chunk: ReadChunk) -> tuple[bool, bool, int]:
    """Chunks of one form are converted together."""
    batch = chunk.reading.batch
    width = batch.num_columns if batch is not None else len(chunk.reading.rows[0])
    return batch is not None, chunk.reading.texts, width


def _column(
    field: Field, values: pa.Array | Sequence[Any] | None, count: int, texts: bool, at: int, problems: dict[int, str]
) -> pa.Array:
    def report(index: int, sentence: str) -> None:
        problems.setdefault(at + index, f'field "{field.name}": {sentence}')

    if values is None:
        return pa.nulls(count, field.type.to_arrow())
    if isinstance(values, pa.Array):
        return column_from_arrow(field.type, values, report)
    if texts:
        return column_from_arrow(field.type, pa.array(values, pa.string()), report)
    return column_from_values(field.type, values, report)


def _times(chunks: list[ReadChunk], counts: list[int]) -> NDArray[np.int64]:
    ts_us = np.empty(sum(counts), dtype=np.int64)
    at = 0
    for chunk, count in zip(chunks, counts, strict=True):
        ts_us[at : at + count] = chunk.read_us if chunk.reading.times_us is None else chunk.reading.times_us
        at += count
    return ts_us


def _complain(chunks: list[ReadChunk], counts: list[int], problems: dict[int, str]) -> None:
    ends = np.cumsum(counts)
    for index, problem in sorted(problems.items()):
        chunk = chunks[int(np.searchsorted(ends, index, side="right"))]
        chunk.source.note_error(problem, chunk.read_us)


_LOGGER = logging.getLogger(__name__)
_MOST_ROWS = 65_536
_RETRY_S = 1.0
_PASSING = {"disk_full", "too_busy", "not_ready", "engine_failed", "clock_untrusted"}


def will_pass(cause: BaseException) -> bool:
    """Whether the same thing may well work later: the disk is full or broken, the log is busy or not there yet.

    A broken disk may only work after a restart; given up, the readings would be lost to a fault that is not theirs.
    """
    if isinstance(cause, PenstockError):
        return cause.condition in _PASSING or isinstance(cause.__cause__, OSError)
    return isinstance(cause, OSError)


class Outbox:
    """The readings of one table that are not stored yet. Chunks come from polling threads, `send` from one thread."""

    def __init__(self, table: Table, sink: Ingest, wake: Callable[[], None], most_rows: int):
        self.table = table
        self._sink = sink
        self._wake = wake
        self._most_rows = most_rows
        self._lock = threading.Lock()
        self._chunks: list[ReadChunk] = []
        self._rows = 0
        self._parcel: ReadingArrays | None = None
        self._future: Future[IngestReceipt] | None = None
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

    def add(self, chunk: ReadChunk) -> None:
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

    def _finish(self, future: Future[IngestReceipt], now_s: float) -> None:
        self._future = None
        cause = future.exception()
        if cause is None:
            self._parcel = None
        else:
            self._refused(cause, now_s)

    def _refused(self, cause: BaseException, now_s: float) -> None:
        """Keep the parcel for another try where the cause will pass, give it up where it will not."""
        self.last_error = str(cause)
        if will_pass(cause):
            self._retry_at_s = now_s + _RETRY_S
            return
        assert self._parcel is not None
        self.lost += len(self._parcel.sids)
        _LOGGER.error("%d readings of table %s were refused: %s", len(self._parcel.sids), self.table.name, cause)
        self._parcel = None

    def _pack(self) -> ReadingArrays | None:
        with self._lock:
            taken: list[ReadChunk] = []
            rows = 0
            for chunk in self._chunks:
                if taken and rows + chunk.reading.count > _MOST_ROWS:
                    break
                taken.append(chunk)
                rows += chunk.reading.count
            del self._chunks[: len(taken)]
            self._rows -= rows
        return pack(self.table, taken) if taken else None
