"""The stream log: batches in, futures answered when the rows are on disk.

`append` stamps a batch and queues it for the thread of `GroupCommit`. Called by `Ingest`; `still` is called by the
catalog around every journal entry.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import ARRIVAL_COLUMN, TIME_COLUMN, VERSION_COLUMN, Table
from penstock.clock import Clock
from penstock.damage import DamageReport, damage_of
from penstock.errors import PenstockError, error
from penstock.settings import Settings
from penstock.streams.log.atomic_file import CrashPoint, make_folder, no_crash, sweep
from penstock.streams.log.group_commit import LONG_AGO, Append, CommitFailures, GroupCommit, LogMoved, TableLog
from penstock.streams.log.segment_rows import open_rows
from penstock.streams.log.segments import ASIDE, LOG, TEMPORARY, list_files
from penstock.types import TIMESTAMP

logger = logging.getLogger(__name__)

WAIT_FOR_ROOM_S = 10.0
DROP_AFTER_S = 60.0  # readers that named files of a dropped table can finish


class StreamLog(GroupCommit):
    """The log of a data folder. One per folder and process; readers need none, they use `segments` and `segment_rows`.

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
        self.clock = clock
        self.corrupt_segments = 0
        self._wait_for_room_s = wait_for_room_s
        self._depth = 0
        self._stills = 0
        log_folder, temporary = self.data_folder / LOG, self.data_folder / TEMPORARY
        self._dropped: dict[int, float] = {}  # by table: since when its folder is to go
        make_folder(log_folder)
        sweep(temporary)
        tables = {}
        for entry in log_folder.iterdir():
            if entry.is_dir() and entry.name.isdigit():
                tables[int(entry.name)], moved = open_table(entry, damage_of(self.data_folder))
                self.corrupt_segments += moved
        super().__init__(log_folder, temporary, settings, tables, crash_point)

    # -- writing

    def append(
        self,
        table: Table,
        batch: pa.RecordBatch,
        idempotency_key: str | None = None,
        *,
        receipt: dict[str, Any] | None = None,
        seen: CommitFailures | None = None,
    ) -> Future[int]:
        """Queue a batch of log rows; the future resolves to the head after it once it is synced.

        Gives transaction-time rows their `ts` (the wall clock, but never before the table's newest) and
        valid-time rows their `_at`; the batch may leave those columns out. With `seen`, raises LogMoved if a
        journal entry or a failed commit came in between.
        """
        future: Future[int] = Future()
        with self._lock:
            self._wait_for_room(batch.nbytes)
            log = self._tables.setdefault(table.id, TableLog())
            if seen is not None and seen != CommitFailures(self._stills, log.failures):
                raise LogMoved
            if log.broken is not None:
                raise log.broken
            if batch.num_rows == 0:
                future.set_result(log.head)
                return future
            now = self.clock.now_us()
            given = now
            if table.options.time == "transaction":
                given = log.last_ts = max(now, log.last_ts)
            stamped = stamp(table, batch, given)
            log.add(Append(stamped, future, idempotency_key, receipt, now))
            self._bytes += stamped.nbytes
            if self._idle or log.is_large:
                self._work.notify()
        return future

    def seen(self, table_id: int) -> CommitFailures:
        """Take this before looking at the catalog's state, and give it to `append`."""
        with self._lock:
            log = self._tables.get(table_id)
            return CommitFailures(self._stills, log.failures if log is not None else 0)

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

    def reserve(self, heads: Mapping[int, int]) -> None:
        """Never give positions below these: a commit record or a journal entry has named them.

        They are beyond the end of the log only where its newest files were lost. What they held is missing then,
        and its readers are told so; given again, the positions would stand for other readings.
        """
        with self._lock:
            for table_id, head in heads.items():
                log = self._tables.setdefault(table_id, TableLog())
                if head > log.head:
                    logger.error("the newest %d readings of table %d are missing", head - log.head, table_id)
                    log.head = head

    # -- looking

    def heads(self) -> dict[int, int]:
        """One past the newest synced row, per table that has rows."""
        with self._lock:
            return self._heads()

    def head(self, table_id: int) -> int:
        with self._lock:
            log = self._tables.get(table_id)
            return log.head if log is not None else 0

    def newest_us(self, table_ids: Iterable[int]) -> int | None:
        """The newest time that a row of these tables has; None where they have none."""
        with self._lock:
            logs = [self._tables[table_id] for table_id in table_ids if table_id in self._tables]
            return max((log.last_ts for log in logs if log.last_ts > LONG_AGO), default=None)

    def floor(self, table_id: int) -> int:
        """The oldest position that is still on disk; the head where there is none."""
        firsts = [segment.first for segment in list_files(self.folder / str(table_id))]
        return min(firsts, default=self.head(table_id))

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


def open_table(folder: Path, report: DamageReport) -> tuple[TableLog, int]:
    """Head and newest time of a table from its file names, and how many of its newest files were moved to `corrupt/`.

    Those are the ones that cannot be opened: nothing comes after them, so the log goes on before them, unless a commit or
    a journal entry has named their positions already (`StreamLog.reserve`). Times go on after theirs.
    """
    moved = 0
    last_ts = LONG_AGO
    while True:
        # Not a cover: a file missing in the middle must stop its readers, not the server.
        files = list_files(folder)
        if not files:
            return TableLog(last_ts=last_ts), moved
        newest = max(files, key=lambda segment: (segment.end, segment.rows))
        try:
            rows = open_rows(newest.path, newest.format)
            if rows != newest.rows:
                raise error("corrupt_segment", segment=newest.path.name, detail=f"it holds {rows} rows")
        except PenstockError as problem:
            moved += 1
            last_ts = max(last_ts, newest.max_ts)
            report.set_aside(newest.path, "log", problem.message)
            continue
        return TableLog(newest.end, max(last_ts, *(segment.max_ts for segment in files)), len(files)), moved


Versions = np.ndarray[Any, np.dtype[np.int32]]
Times = np.ndarray[Any, np.dtype[np.int64]]


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


def rows_to_log(table: Table, vids: Versions, times: Times, fields: list[pa.Array]) -> pa.RecordBatch:
    """A batch for `StreamLog.append`, which gives its rows the time that is the log's own."""
    assert table.stream is not None
    ts = pa.Array.from_buffers(TIMESTAMP.to_arrow(), len(vids), [None, pa.py_buffer(times)])
    names = [VERSION_COLUMN.name, TIME_COLUMN, *(f.name for f in table.stream.fields)]
    return pa.RecordBatch.from_arrays([pa.array(vids, pa.int32()), ts, *fields], names=names)


def stamp(table: Table, batch: pa.RecordBatch, stamp_us: int) -> pa.RecordBatch:
    """The batch as it is logged: `stamp_us` is the rows' `ts` under transaction time, their `_at` under valid time."""
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
