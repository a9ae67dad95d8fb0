"""The stream log's one writer: batches in, synced segments out, futures answered when the rows are on disk.

`append` stamps a batch and queues it; a writer thread takes what is queued and makes one segment of it per
table (group commit). Positions are given when a segment is in place, so they never skip, whatever fails.
Called by `Ingest`; `still` is called by the catalog around every journal entry.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import ARRIVAL_COLUMN, TIME_COLUMN, VERSION_COLUMN, Table
from penstock.clock import Clock
from penstock.errors import PenstockError, error
from penstock.settings import Settings
from penstock.streams.hot import write_hot
from penstock.streams.layout import ASIDE, CORRUPT, LOG, TEMPORARY
from penstock.streams.segments import list_files, open_rows
from penstock.streams.storing import CrashPoint, FolderNotSynced, as_storage_error, make_folder, no_crash, sweep
from penstock.types import TIMESTAMP

logger = logging.getLogger(__name__)

WAIT_FOR_ROOM_S = 10.0
COMMIT_AT_BYTES = 8 << 20  # this much is worth a segment at once; waiting for more would only use memory
INTERVAL_MAX_S = 2.0
DROP_AFTER_S = 60.0


def log_schema(table: Table) -> pa.Schema:
    """The columns of a sensor table's log: `_vid`, `ts`, `_at` (valid time only), the stream's fields."""
    fields = [
        pa.field(VERSION_COLUMN.name, VERSION_COLUMN.type.to_arrow()),
        pa.field(TIME_COLUMN, TIMESTAMP.to_arrow()),
    ]
    if table.options.time == "valid":
        fields.append(pa.field(ARRIVAL_COLUMN.name, ARRIVAL_COLUMN.type.to_arrow()))
    stream_fields = table.stream.fields if table.stream is not None else ()
    return pa.schema([*fields, *(pa.field(f.name, f.type.to_arrow()) for f in stream_fields)])


class LogMoved(Exception):
    """What the caller had looked at before its append is no longer so: look again, then append again."""


@dataclass(frozen=True, slots=True)
class Seen:
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
class _TableLog:
    head: int = 0
    last_ts: int = -(2**62)
    files: int = 0
    failures: int = 0
    committed_at_s: float = 0.0
    pending: list[Append] = field(default_factory=list)
    pending_bytes: int = 0
    broken: PenstockError | None = None


class StreamLog:
    """The log of a data folder. One per folder and process; readers need none, they use `segments`.

    `folder` is the data folder. A batch is durable when its future resolves, to the table's head after it. On a
    full disk the batch and everything queued behind it for the table fail together, nothing of them is left,
    and the next append tries anew. Waiting batches hold at most `queue_max_bytes`; then `append` waits, and
    raises too_busy after a while.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        clock: Clock,
        crash_point: CrashPoint = no_crash,
        wait_for_room_s: float = WAIT_FOR_ROOM_S,
    ) -> None:
        self.data_folder = Path(folder)
        self.folder = self.data_folder / LOG
        self.temporary = self.data_folder / TEMPORARY
        self.settings = settings
        self.clock = clock
        self.corrupt_segments = 0
        self.commits = 0
        self._crash_point = crash_point
        self._wait_for_room_s = wait_for_room_s
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._tables: dict[int, _TableLog] = {}
        self._bytes = 0
        self._writing = False
        self._idle = False
        self._holder: int | None = None
        self._depth = 0
        self._stills = 0
        self._closing = False
        self._dropped: dict[int, float] = {}
        make_folder(self.folder)
        sweep(self.temporary)
        for entry in self.folder.iterdir():
            if entry.is_dir() and entry.name.isdigit():
                self._tables[int(entry.name)] = self._open_table(int(entry.name))
        self._thread = threading.Thread(target=self._run, name="penstock-log", daemon=True)
        self._thread.start()

    # -- writing

    def append(
        self,
        table: Table,
        batch: pa.RecordBatch,
        idempotency_key: str | None = None,
        *,
        receipt: dict[str, Any] | None = None,
        seen: Seen | None = None,
    ) -> Future[int]:
        """Queue a batch of log rows; the future resolves to the head after it once it is synced.

        Gives transaction-time rows their `ts` (the wall clock, but never before the table's newest) and
        valid-time rows their `_at`; the batch may leave those columns out. With `seen`, raises LogMoved if a
        journal entry or a failed commit came in between.
        """
        future: Future[int] = Future()
        with self._lock:
            self._wait_for_room(batch.nbytes)
            log = self._tables.setdefault(table.id, _TableLog())
            if seen is not None and seen != Seen(self._stills, log.failures):
                raise LogMoved
            if log.broken is not None:
                raise log.broken
            if batch.num_rows == 0:
                future.set_result(log.head)
                return future
            now = self.clock.now_us()
            stamp = max(now, log.last_ts) if table.options.time == "transaction" else now
            stamped = _stamp(table, batch, stamp)
            log.last_ts = max(log.last_ts, stamp) if table.options.time == "transaction" else log.last_ts
            log.pending.append(Append(stamped, future, idempotency_key, receipt, now))
            log.pending_bytes += stamped.nbytes
            self._bytes += stamped.nbytes
            if self._idle or log.pending_bytes >= COMMIT_AT_BYTES:
                self._work.notify()
        return future

    def seen(self, table_id: int) -> Seen:
        """Take this before looking at the catalog's state, and give it to `append`."""
        with self._lock:
            log = self._tables.get(table_id)
            return Seen(self._stills, log.failures if log is not None else 0)

    @contextmanager
    def still(self) -> Iterator[dict[int, int]]:
        """Write everything queued, let nothing new in, and yield the heads, until the block ends.

        A journal entry written, and applied to the state, inside the block cuts the total order exactly.
        """
        me = threading.get_ident()
        with self._lock:
            if self._holder != me:
                while self._holder is not None:
                    self._room.wait()
                self._holder = me
                self._work.notify()
                while self._writing or any(log.pending for log in self._tables.values()):
                    self._room.wait()
            self._depth += 1
            heads = self._heads()
        try:
            yield heads
        finally:
            with self._lock:
                self._depth -= 1
                if self._depth == 0:
                    self._holder = None
                    self._stills += 1
                    self._room.notify_all()

    def close(self) -> None:
        """Write everything queued and stop. A later append raises not_ready."""
        with self._lock:
            self._closing = True
            self._work.notify_all()
            self._room.notify_all()
        self._thread.join()

    # -- looking

    def heads(self) -> dict[int, int]:
        """One past the newest synced row, per table that has rows."""
        with self._lock:
            return self._heads()

    def head(self, table_id: int) -> int:
        with self._lock:
            log = self._tables.get(table_id)
            return log.head if log is not None else 0

    def floor(self, table_id: int) -> int:
        """The oldest position that is still on disk; the head where there is none."""
        firsts = [segment.first for segment in list_files(self.folder / str(table_id))]
        return min(firsts, default=self.head(table_id))

    def log_schema(self, table: Table) -> pa.Schema:
        return log_schema(table)

    def queued_bytes(self) -> int:
        with self._lock:
            return self._bytes

    def table_ids(self) -> list[int]:
        with self._lock:
            return list(self._tables)

    def recount_files(self, table_id: int) -> int:
        """Count a table's files anew after compaction or retention removed some; many slow its commits down."""
        count = len(list_files(self.folder / str(table_id)))
        with self._lock:
            if table_id in self._tables:
                self._tables[table_id].files = count
        return count

    # -- dropping

    def drop(self, table_id: int) -> None:
        """Forget a table. Its folder goes after a while, so that readers that named its files can finish."""
        with self._lock:
            log = self._tables.pop(table_id, None)
            self._dropped[table_id] = time.monotonic()
            lost = log.pending if log is not None else []
            self._bytes -= log.pending_bytes if log is not None else 0
            self._room.notify_all()
        for append in lost:
            append.future.set_exception(error("table_not_found", table=str(table_id)))

    def remove_dropped(self, after_s: float = DROP_AFTER_S) -> None:
        """Remove the folders of tables that were dropped long enough ago."""
        with self._lock:
            due = [t for t, since in self._dropped.items() if time.monotonic() - since >= after_s]
        for table_id in due:
            folder = self.folder / str(table_id)
            if folder.is_dir():
                # Renamed first: a listing sees the whole table or none of it.
                self.temporary.mkdir(exist_ok=True)
                aside = self.temporary / f"{ASIDE}dropped-{table_id}"
                folder.rename(aside)
                shutil.rmtree(aside, ignore_errors=True)
            with self._lock:
                self._dropped.pop(table_id, None)

    # -- inside

    def _heads(self) -> dict[int, int]:
        return {table_id: log.head for table_id, log in self._tables.items() if log.head}

    def _wait_for_room(self, size: int) -> None:
        deadline = time.monotonic() + self._wait_for_room_s
        limit = self.settings.queue_max_bytes
        while self._holder is not None or (self._bytes and self._bytes + size > limit):
            if self._closing:
                break
            left = deadline - time.monotonic()
            if left <= 0:
                raise error(
                    "too_busy",
                    detail=f"{self._bytes} bytes of readings wait to be written",
                    hint="send again in a moment, or in fewer and larger batches",
                )
            self._room.wait(left)
        if self._closing:
            raise error("not_ready", detail="the log is closed")

    def _interval_s(self, log: _TableLog) -> float:
        """How long a table's segment waits after the last one: longer as files pile up faster than they merge."""
        base = self.settings.group_commit_ms / 1000
        most = self.settings.files_max_per_table
        excess = (log.files - most / 2) / (most / 2)
        return base if excess <= 0 else min(INTERVAL_MAX_S, base * 2 ** (10 * min(excess, 1.0)))

    def _run(self) -> None:
        while True:
            with self._lock:
                taken = self._take()
                if taken is None:
                    return
                self._writing = True
            for table_id, appends in taken.items():
                self._commit(table_id, appends)
            with self._lock:
                self._writing = False
                self._room.notify_all()

    def _take(self) -> dict[int, list[Append]] | None:
        """Wait until some table's segment is due and take what is queued for it; None when closed and empty."""
        while True:
            waiting = {t: log for t, log in self._tables.items() if log.pending}
            if not waiting and self._closing:
                return None
            now = time.monotonic()
            at_once = self._holder is not None or self._closing
            due_at = {
                t: now
                if at_once or log.pending_bytes >= COMMIT_AT_BYTES
                else log.committed_at_s + self._interval_s(log)
                for t, log in waiting.items()
            }
            due = [t for t, at in due_at.items() if at <= now]
            if due:
                taken = {}
                for table_id in due:
                    log = self._tables[table_id]
                    taken[table_id], log.pending, log.pending_bytes = log.pending, [], 0
                return taken
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

    def _fail(self, log: _TableLog | None, failed: list[Append], problem: Exception) -> None:
        told = as_storage_error(problem)
        logger.warning("a segment could not be written: %s", problem)
        with self._lock:
            if log is not None:
                # Rows queued behind were checked against rows that are not there now: they go too.
                failed = [*failed, *log.pending]
                log.pending, log.pending_bytes = [], 0
                log.failures += 1
                log.committed_at_s = time.monotonic()
                if isinstance(problem, FolderNotSynced):
                    log.broken = told
            self._bytes -= sum(append.batch.nbytes for append in failed)
            self._room.notify_all()
        for append in failed:
            append.future.set_exception(told)

    def _open_table(self, table_id: int) -> _TableLog:
        """Heads and newest time from the names; a newest segment that cannot be opened is moved away."""
        while True:
            # Not a cover: a file missing in the middle must stop its readers, not the server.
            files = list_files(self.folder / str(table_id))
            if not files:
                return _TableLog()
            newest = max(files, key=lambda segment: (segment.end, segment.rows))
            try:
                rows = open_rows(newest.path, newest.format)
                if rows != newest.rows:
                    raise error("corrupt_segment", segment=newest.path.name, detail=f"it holds {rows} rows")
            except PenstockError as problem:
                self.corrupt_segments += 1
                shelf = self.data_folder / CORRUPT / str(table_id)
                make_folder(shelf)
                newest.path.rename(shelf / newest.path.name)
                logger.warning("moved to %s: %s", shelf, problem)
                continue
            return _TableLog(newest.end, max(segment.max_ts for segment in files), len(files))


def _stamp(table: Table, batch: pa.RecordBatch, stamp_us: int) -> pa.RecordBatch:
    schema = log_schema(table)
    given = TIME_COLUMN if table.options.time == "transaction" else ARRIVAL_COLUMN.name
    arrays = []
    for column in schema:
        if column.name == given:
            values = np.full(batch.num_rows, stamp_us, dtype=np.int64)
            arrays.append(pa.Array.from_buffers(column.type, batch.num_rows, [None, pa.py_buffer(values)]))
        else:
            arrays.append(batch.column(column.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
