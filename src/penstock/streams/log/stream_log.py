"""The stream log: batches in, futures answered when the rows are on disk.

`append` stamps a batch and queues it for the one thread that writes. Called by `Ingest`; `still` is called by the
catalog around every journal entry.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog.model import Table
from penstock.clock import Clock
from penstock.damage import damage_of
from penstock.errors import error
from penstock.services import Service
from penstock.settings import Settings
from penstock.streams.log.atomic_file import CrashPoint, FolderNotSynced, as_storage_error, make_folder, no_crash, sweep
from penstock.streams.log.segments import ASIDE, LOG, TEMPORARY, list_files
from penstock.streams.log.table_log import (
    LONG_AGO,
    Append,
    CommitFailures,
    LogMoved,
    TableLog,
    open_table,
    stamp,
    write_hot,
)

logger = logging.getLogger(__name__)

WAIT_FOR_ROOM_S = 10.0
DROP_AFTER_S = 60.0  # readers that named files of a dropped table can finish
BACK_OFF_MAX_S = 2.0  # senders wait for it


class StreamLog:
    """The log of a data folder. One per folder and process; readers need none, they use `segments` and `segment_rows`.

    `folder` is the data folder. A batch is durable when its future resolves, to the table's head after it. On a
    full disk the batch and everything queued behind it for the table fail together, nothing of them is left,
    and the next append tries anew. Waiting batches hold at most `queue_max_bytes`; then `append` waits, and
    raises too_busy after a while.

    One thread takes what is queued and makes one segment of it per table. While `_holder` is a thread, or on closing, every
    segment is due at once. Positions are given when a segment is in place, so they never skip, whatever fails.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        clock: Clock,
        crash_point: CrashPoint = no_crash,
        wait_for_room_s: float | None = None,
    ) -> None:
        self.data_folder = Path(folder)
        self.clock = clock
        self._wait_for_room_s = WAIT_FOR_ROOM_S if wait_for_room_s is None else wait_for_room_s
        self._depth = 0
        self._stills = 0
        self.folder, self.temporary = self.data_folder / LOG, self.data_folder / TEMPORARY
        self._dropped: dict[int, float] = {}  # by table: since when its folder is to go
        make_folder(self.folder)
        sweep(self.temporary)
        self._tables: dict[int, TableLog] = {}
        for entry in self.folder.iterdir():
            if entry.is_dir() and entry.name.isdigit():
                self._tables[int(entry.name)] = open_table(entry, damage_of(self.data_folder))
        self.settings = settings
        self.commits = 0
        self._crash_point = crash_point
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._bytes = 0
        self._writing = False
        self._idle = False
        self._holder: int | None = None
        self._closing = False
        self.on_change: Callable[[], None] = lambda: None  # called when rows or journal entries are on disk
        self._writer = Service("log", self._write_due, critical=True, back_off_max_s=BACK_OFF_MAX_S)
        self._writer.start()

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
            self.on_change()

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

    def arrived_us(self, table_id: int, position: int) -> int | None:
        """When the reading at a position came, to the segment; None where that is not known any more. Callers go on in order."""
        with self._lock:
            log = self._tables.get(table_id)
            if log is None:
                return None
            arrivals = log.arrivals
            while len(arrivals) > 1 and arrivals[1][0] <= position:
                arrivals.popleft()
            return arrivals[0][1] if arrivals and arrivals[0][0] <= position else None

    def newest_us(self, table_ids: Iterable[int]) -> int | None:
        """The newest time that a row of these tables has; None where they have none."""
        with self._lock:
            logs = [self._tables[table_id] for table_id in table_ids if table_id in self._tables]
            return max((log.last_ts for log in logs if log.last_ts > LONG_AGO), default=None)

    def floor(self, table_id: int) -> int:
        """The oldest position that is still on disk; the head where there is none."""
        firsts = [segment.first for segment in list_files(self.folder / str(table_id))]
        return min(firsts, default=self.head(table_id))

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

    def close(self) -> None:
        """Write everything queued and stop. A later append raises not_ready."""
        with self._lock:
            self._closing = True
            self._work.notify_all()
            self._room.notify_all()
        self._writer.join()

    def services(self) -> list[Service]:
        return [self._writer]

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

    # -- the thread that writes

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
                        log.arrivals.append((head, run[0].at_us))
                        log.head += rows
                        log.files += 1
                        log.committed_at_s = time.monotonic()
                        log.last_ts = max(log.last_ts, target.max_ts)
                    self._room.notify_all()
                self.on_change()
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
