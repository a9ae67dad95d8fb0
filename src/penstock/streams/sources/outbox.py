"""Readings on their way from opened sensors to ingest: gathered per table, pushed together, kept until stored.

One push per table is under way at a time; what is read meanwhile makes up the next one. A push that could not
be stored (a full disk) is repeated as it is, so no reading is lost or overtaken; sensors of the table wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.catalog.model import Table
from penstock.errors import PenstockError
from penstock.streams.ingest.receipt import IngestReceipt
from penstock.streams.sources.reading_arrays import ReadChunk, ReadingArrays, pack

_LOGGER = logging.getLogger(__name__)
_MOST_ROWS = 65_536
_RETRY_S = 1.0
_PASSING = {"disk_full", "too_busy", "not_ready", "engine_failed", "clock_untrusted"}


class ReadingSink(Protocol):
    """What the outbox needs of `streams.ingest.ingest.Ingest`."""

    def push_resolved(
        self, table: Table, sids: NDArray[np.int32], ts_us: NDArray[np.int64] | None, columns: Sequence[pa.Array]
    ) -> Future[IngestReceipt]:
        """Store readings of known sensors; columns in the order of the stream's fields."""
        ...

    def sensors(self, table: str) -> Mapping[str, NDArray[np.int64]]:
        """By sid: `newest`, the newest time that the log holds of a sensor (`columns.NO_TIME`: none)."""
        ...


def will_pass(cause: BaseException) -> bool:
    """Whether the same thing may well work later: the disk is full or broken, the log is busy or not there yet.

    A broken disk may only work after a restart; given up, the readings would be lost to a fault that is not theirs.
    """
    if isinstance(cause, PenstockError):
        return cause.condition in _PASSING or isinstance(cause.__cause__, OSError)
    return isinstance(cause, OSError)


class Outbox:
    """The readings of one table that are not stored yet. Chunks come from polling threads, `send` from one thread."""

    def __init__(self, table: Table, sink: ReadingSink, wake: Callable[[], None], most_rows: int):
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
