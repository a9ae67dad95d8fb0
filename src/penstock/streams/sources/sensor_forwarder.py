"""Readings on their way from opened sensors to ingest, and the thread that sends them and journals which sensors are observed.

Readings are gathered per table. One push per table is under way at a time; what is read meanwhile makes up the next one. A push
that could not be stored (a full disk) is repeated as it is, so no reading is lost or overtaken; sensors of the table wait. One
that fails for a reason that is not known is tried five times.

Readings go in the order of their times, each sensor's own as it gave them. A reading with values that do not fit its
fields is left out and counted against its sensor, so that one bad sensor spoils no other sensor's readings.

An answer is complete from an opening on, so the opening is journalled before the sensor is first read
(`observed` says so); a closing comes after its last reading. Many of them make one entry.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.catalog.model import Table
from penstock.sensors.base import Reading, Row
from penstock.services import Service
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.ingest.values import column_from_arrow, column_from_values
from penstock.streams.sources.push_delivery import PushDelivery, will_pass
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
        chunk.source.note_error(problem, reading.count)
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
        chunk.source.note_error(problem)


_LOGGER = logging.getLogger(__name__)
_MOST_ROWS = 65_536


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
        self._counts = InputCounts()  # not shown: ingest counts by sensor
        self._delivery: PushDelivery | None = None

    @property
    def is_full(self) -> bool:
        return self._rows >= self._most_rows

    @property
    def is_empty(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self._chunks and self._delivery is None

    @property
    def is_sent(self) -> bool:
        """Everything was handed to ingest, whether it is stored yet or not."""
        return not self._chunks and (self._delivery is None or self._delivery.is_sent)

    def add(self, chunk: ReadChunk) -> None:
        with self._lock:
            self._chunks.append(chunk)
            self._rows += chunk.reading.count

    def send(self) -> None:
        """Take note of a finished push and start the next one."""
        if self._delivery is not None and not self._delivery.advance():
            return
        self._delivery = None
        parcel = self._pack()
        if parcel is not None:

            def push() -> Future[IngestReceipt]:
                return self._sink.push_resolved(self.table, parcel.sids, parcel.ts_us, parcel.columns)

            self._delivery = PushDelivery(push, self.table.name, len(parcel.sids), self._counts, self._wake)

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


_BACK_OFF_MAX_S = 2.0  # sensors are not read before their opening is journalled
_GATHER_S = 0.05  # an entry is a sync: thousands of sensors that open one by one share a few
_REST_S = 0.005  # lets the readings of many sensors gather into one push

What = Literal["opened", "closed", "ended"]
Event = tuple[int, int, What]  # table id, sid, what happened
# observe(table id, sids opened, sids closed, those of the closed that ended)
Observe = Callable[[int, list[int], list[int], list[int]], None]


class SensorForwarder:
    """Polling threads add to outboxes and note openings; everything that may wait for a disk happens here."""

    def __init__(
        self,
        sink: Ingest,
        observe: Observe,
        observed: Callable[[int, list[int]], None],
        most_rows: int,
    ) -> None:
        self._most_rows = most_rows
        self._sink = sink
        self._observe = observe
        self._observed = observed
        self._journal_at_s = 0.0
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._outboxes: dict[int, Outbox] = {}
        self._noted: list[Event] = []  # in the order of events
        self._busy = False
        self._service = Service("courier", self._step, back_off_max_s=_BACK_OFF_MAX_S)
        self._service.start()

    def outbox(self, table: Table) -> Outbox:
        """The table's outbox, which from now on packs for this version of the table."""
        with self._lock:
            box = self._outboxes.get(table.id)
            if box is None:
                box = self._outboxes[table.id] = Outbox(table, self._sink, self._woken.set, self._most_rows)
            box.table = table
            return box

    def wake(self) -> None:
        self._woken.set()

    def note(self, table_id: int, sid: int, what: What) -> None:
        """A sensor was opened or closed; readings added before a closing are sent before it is journalled."""
        with self._lock:
            self._noted.append((table_id, sid, what))
        self._woken.set()

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything is stored and journalled; False when the time was too short."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            with self._lock:
                if not self._noted and not self._busy and all(b.is_empty for b in self._outboxes.values()):
                    return True
            self._woken.set()
            time.sleep(_REST_S)
        return False

    def close(self, timeout_s: float) -> None:
        self._service.stop()
        self._woken.set()
        self._service.join(timeout_s)

    def services(self) -> list[Service]:
        return [self._service]

    def _step(self) -> float:
        self._woken.wait(_GATHER_S if self._noted else 0.25)
        self._woken.clear()
        self._round()
        return _REST_S

    def _round(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            noted: list[Event] = []
            if now_s >= self._journal_at_s:
                noted, self._noted = self._noted, []
                self._journal_at_s = now_s + (_GATHER_S if noted else 0.0)
            self._busy = bool(noted)
            outboxes = dict(self._outboxes)
        try:
            noted = self._journal_openings(noted)
            for box in outboxes.values():
                box.send()
            noted = self._journal(noted, {table_id for table_id, box in outboxes.items() if not box.is_sent})
        finally:
            with self._lock:
                self._noted = noted + self._noted
                self._busy = False

    def _journal_openings(self, noted: list[Event]) -> list[Event]:
        """Journal openings, and closings that a later opening of the same sensor overtakes; the rest remains."""
        last_opening = {event[:2]: at for at, event in enumerate(noted) if event[2] == "opened"}
        first = [event for at, event in enumerate(noted) if at <= last_opening.get(event[:2], -1)]
        rest = [event for at, event in enumerate(noted) if at > last_opening.get(event[:2], -1)]
        return self._journal(first, set()) + rest

    def _journal(self, noted: list[Event], waiting: set[int]) -> list[Event]:
        """Journal events except those of waiting tables, which are the answer.

        One entry per table, as long as no sensor comes twice. Should the journal fail, the caller keeps all
        events: an entry that says again what is known changes nothing.
        """
        left = [event for event in noted if event[0] in waiting]
        todo = [event for event in noted if event[0] not in waiting]
        while todo:
            seen: set[tuple[int, int]] = set()
            later: list[Event] = []
            by_table: defaultdict[int, tuple[list[int], list[int], list[int]]] = defaultdict(lambda: ([], [], []))
            for event in todo:
                table_id, sid, what = event
                if (table_id, sid) in seen:
                    later.append(event)
                    continue
                seen.add((table_id, sid))
                opened, closed, ended = by_table[table_id]
                (opened if what == "opened" else closed).append(sid)
                if what == "ended":
                    ended.append(sid)
            for table_id, (opened, closed, ended) in sorted(by_table.items()):
                try:
                    self._observe(table_id, opened, closed, ended)
                except Exception as cause:
                    if will_pass(cause):
                        raise
                    # The table was dropped meanwhile, say: nothing to journal, and the others must go on.
                    _LOGGER.warning("sensors of table %d could not be journalled: %s", table_id, cause)
                self._observed(table_id, opened)
            todo = later
        return left
