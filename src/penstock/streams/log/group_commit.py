"""The log's one writer: a thread takes what is queued and makes one segment of it per table.

Positions are given when a segment is in place, so they never skip, whatever fails. A (hot) segment is an Arrow file with
the idempotency keys of its pushes in its schema.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import PenstockError
from penstock.services import Service
from penstock.settings import Settings
from penstock.streams.log.atomic_file import CrashPoint, FolderNotSynced, as_storage_error, make_folder, store
from penstock.streams.log.checksums import open_sealed, sealed_file
from penstock.streams.log.segments import Segment, segment_name

COMMIT_AT_BYTES = 8 << 20  # this much is worth a segment at once; waiting for more would only use memory
INTERVAL_MAX_S = 2.0
LONG_AGO = -(2**62)


class LogMoved(Exception):
    """What the caller had looked at before its append is no longer so: look again, then append again."""


@dataclass(frozen=True, slots=True)
class CommitFailures:
    """What a caller relied on: the number of journal pauses so far, and of failed commits of the table."""

    stills: int
    failures: int


@dataclass(slots=True)
class Append:
    """One queued batch. `receipt` goes to disk with `key`, in the same file as the rows."""

    batch: pa.RecordBatch
    future: Future[int]
    key: str | None
    receipt: dict[str, Any] | None
    at_us: int


@dataclass(slots=True)
class TableLog:
    """One table as the writer knows it: how far it is written, and what waits."""

    head: int = 0
    last_ts: int = LONG_AGO
    files: int = 0
    failures: int = 0
    committed_at_s: float = 0.0
    pending: list[Append] = field(default_factory=list)
    pending_bytes: int = 0
    broken: PenstockError | None = None

    @property
    def is_large(self) -> bool:
        return self.pending_bytes >= COMMIT_AT_BYTES

    def add(self, append: Append) -> None:
        self.pending.append(append)
        self.pending_bytes += append.batch.nbytes

    def take(self) -> list[Append]:
        taken, self.pending, self.pending_bytes = self.pending, [], 0
        return taken

    def due_at_s(self, settings: Settings) -> float:
        """When the next segment is written: longer after the last one as files pile up faster than they merge."""
        base = settings.group_commit_ms / 1000
        most = settings.files_max_per_table
        excess = (self.files - most / 2) / (most / 2)
        pause = base if excess <= 0 else min(INTERVAL_MAX_S, base * 2 ** (10 * min(excess, 1.0)))
        return self.committed_at_s + pause


logger = logging.getLogger(__name__)
BACK_OFF_MAX_S = 2.0  # senders wait for it


class GroupCommit:
    """What waits to be written, by table, and the thread that writes it. Subclasses queue, under the lock.

    While `_holder` is a thread, or on closing, every segment is due at once.
    """

    def __init__(
        self, folder: Path, temporary: Path, settings: Settings, tables: dict[int, TableLog], crash_point: CrashPoint
    ) -> None:
        self.folder = folder
        self.temporary = temporary
        self.settings = settings
        self.commits = 0
        self._tables = tables
        self._crash_point = crash_point
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._bytes = 0
        self._writing = False
        self._idle = False
        self._holder: int | None = None
        self._closing = False
        self._writer = Service("log", self._write_due, critical=True, back_off_max_s=BACK_OFF_MAX_S)
        self._writer.start()

    def close(self) -> None:
        """Write everything queued and stop. A later append raises not_ready."""
        with self._lock:
            self._closing = True
            self._work.notify_all()
            self._room.notify_all()
        self._writer.join()

    def services(self) -> list[Service]:
        return [self._writer]

    def _write_due(self) -> float | None:
        """Wait for what is due and write it; None when closed and empty."""
        with self._lock:
            taken = self._take()
            if taken is None:
                return None
            self._writing = True
        try:
            for table_id, appends in taken.items():
                self._commit(table_id, appends)
        except BaseException as problem:
            # Every sender gets an answer, whatever happened here.
            for table_id, appends in taken.items():
                self._fail(self._tables.get(table_id), [a for a in appends if not a.future.done()], problem)
            raise
        finally:
            with self._lock:
                self._writing = False
                self._room.notify_all()
        return 0.0

    def _take(self) -> dict[int, list[Append]] | None:
        """Wait until some table's segment is due and take what is queued for it; None when closed and empty."""
        while True:
            waiting = {t: log for t, log in self._tables.items() if log.pending}
            if not waiting and self._closing:
                return None
            now = time.monotonic()
            at_once = self._holder is not None or self._closing
            due_at = {t: now if at_once or log.is_large else log.due_at_s(self.settings) for t, log in waiting.items()}
            due = [t for t, at in due_at.items() if at <= now]
            if due:
                return {table_id: self._tables[table_id].take() for table_id in due}
            self._idle = not waiting
            self._work.wait(min(due_at.values()) - now if due_at else None)
            self._idle = False

    def _commit(self, table_id: int, appends: list[Append]) -> None:
        """Write the queued batches of one table; answer each future only when its rows are synced."""
        log = self._tables.get(table_id)
        done = 0
        try:
            while done < len(appends):
                schema = appends[done].batch.schema
                same = next((i for i in range(done, len(appends)) if appends[i].batch.schema != schema), len(appends))
                run = appends[done:same]
                head = log.head if log is not None else 0
                target = write_hot(self.folder / str(table_id), self.temporary, head, run, self._crash_point)
                rows = sum(append.batch.num_rows for append in run)
                with self._lock:
                    self.commits += 1
                    self._bytes -= sum(append.batch.nbytes for append in run)
                    if log is not None:
                        log.head += rows
                        log.files += 1
                        log.committed_at_s = time.monotonic()
                        log.last_ts = max(log.last_ts, target.max_ts)
                    self._room.notify_all()
                for append in run:
                    head += append.batch.num_rows
                    append.future.set_result(head)
                self._crash_point("log:answered")
                done = same
        except Exception as problem:
            self._fail(log, appends[done:], problem)

    def _fail(self, log: TableLog | None, failed: list[Append], problem: BaseException) -> None:
        told = as_storage_error(problem)
        logger.warning("a segment could not be written: %s", problem)
        with self._lock:
            if log is not None:
                # Rows queued behind were checked against rows that are not there now: they go too.
                failed = [*failed, *log.take()]
                log.failures += 1
                log.committed_at_s = time.monotonic()
                if isinstance(problem, FolderNotSynced):
                    log.broken = told
            self._bytes -= sum(append.batch.nbytes for append in failed)
            self._room.notify_all()
        for append in failed:
            append.future.set_exception(told)


KEYS = b"penstock.keys"
_SMALL_BATCH_ROWS = 8192


def write_hot(folder: Path, temporary: Path, first: int, queued: Sequence[Append], crash_point: CrashPoint) -> Segment:
    """Write batches of one schema as the segment that starts at `first`; synced when this returns."""
    batches = [append.batch for append in queued]
    rows = sum(batch.num_rows for batch in batches)
    if len(batches) > 1 and rows < _SMALL_BATCH_ROWS * len(batches):
        # Many small batches in a file cost every reader more than one copy costs here.
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    low, high = _times(batches)
    write = sealed_file(batches[0].schema.with_metadata(_keys(queued, first)), batches)
    target = folder / segment_name(first, first + rows, low, high, "arrow")
    make_folder(folder)
    store(temporary, target, write, crash_point, "log")
    return Segment(target, first, first + rows, low, high, "arrow")


def _times(batches: Sequence[pa.RecordBatch]) -> tuple[int, int]:
    bounds = [pc.min_max(batch.column(TIME_COLUMN).view(pa.int64())) for batch in batches]
    return min(b["min"].as_py() for b in bounds), max(b["max"].as_py() for b in bounds)


def _keys(queued: Sequence[Append], first: int) -> dict[bytes, bytes] | None:
    found = []
    for append in queued:
        first += append.batch.num_rows
        if append.key is not None:
            found.append([append.key, append.at_us, first, append.receipt or {"accepted": append.batch.num_rows}])
    return {KEYS: json.dumps(found, separators=(",", ":")).encode()} if found else None


def read_keys(path: Path) -> list[tuple[str, int, int, dict[str, Any]]]:
    """The (key, arrival, position after, receipt) of the pushes that wrote a hot segment."""
    with pa.memory_map(str(path)) as source:
        metadata = open_sealed(path, source).metadata or {}
    return [(key, at_us, position, receipt) for key, at_us, position, receipt in json.loads(metadata.get(KEYS, b"[]"))]
