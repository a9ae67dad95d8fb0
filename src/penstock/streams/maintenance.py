"""A thread of low priority that keeps the log small: compaction, retention, sidecars, folders of dropped tables."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.clock import Clock
from penstock.clock_guard import clock_status, retention_now_us
from penstock.services import Service
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.log.atomic_file import as_storage_error
from penstock.streams.log.compaction import GRACE_S, Compactor
from penstock.streams.log.release_memory import give_back_memory
from penstock.streams.log.segments import Segment, list_what_is_there
from penstock.streams.log.stream_log import StreamLog

logger = logging.getLogger(__name__)

EVERY_S = 0.2
RETAIN_EVERY_S = 10.0
PAUSE_S = 10.0  # after a failure: a full disk or a bad file does not get better by asking often


@dataclass(frozen=True, slots=True)
class RetentionControl:
    """How far readings may go, table by table, and the catalog's record of it.

    `retain(table_id, position)` journals a floor (`Catalog.retain`); `floor(table_id)` gives the journalled one
    (`CatalogState.retention`); `protect(table_id)` is the position that cycles and fills still need. `tidy` is called
    after each round over all tables.
    """

    retain: Callable[[int, int], None]
    floor: Callable[[int], int]
    protect: Protect
    tidy: Callable[[], None] = lambda: None


class LogMaintenance:
    """Runs as a service from construction to `close`. What fails is logged and tried again; the log works on without it."""

    def __init__(
        self,
        log: StreamLog,
        ingest: Ingest,
        state: Callable[[], CatalogState],
        clock: Clock,
        retention: RetentionControl,
        grace_s: float = GRACE_S,
    ) -> None:
        self._log, self._ingest, self._state, self._clock = log, ingest, state, clock
        self._retention = retention
        self.compactor = Compactor(
            log,
            lambda table_id, paths: ingest.tables.key_file(table_id).carry(paths, clock.now_us()),
            grace_s=grace_s,
        )
        self.failures = 0
        self._retain_at = 0.0
        self._paused_until: dict[int, float] = {}
        self._quiet = False
        self._service = Service("housekeeping", self._round, first_s=EVERY_S)
        self._service.start()

    def close(self) -> None:
        """Stop after the merge under way, and write the sidecars."""
        self._service.stop()
        self._service.join()
        for table in self._state().tables_by_id.values():
            if table.stream is not None:
                with contextlib.suppress(Exception):
                    self._ingest.tables.remember(table, at_least_rows=1)

    def services(self) -> list[Service]:
        return [self._service]

    def _round(self) -> float:
        """Look after every table; what is wrong with one keeps none of the others from it."""
        if not self._quiet:
            # Compaction must not take the processor from the cycle: on Linux a priority is a thread's own.
            with contextlib.suppress(OSError, AttributeError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
            self._quiet = True
        retain = time.monotonic() >= self._retain_at
        if retain:
            self._retain_at = time.monotonic() + RETAIN_EVERY_S
        for table_id in list(self._state().tables_by_id):
            if time.monotonic() < self._paused_until.get(table_id, 0.0):
                continue
            try:
                self.tend(table_id, retain)
            except Exception as problem:
                self.failures += 1
                self._paused_until[table_id] = time.monotonic() + PAUSE_S
                logger.warning("housekeeping of table %s: %s", table_id, as_storage_error(problem).message)
        if retain:
            give_back_memory()
            self._retention.tidy()
        self._log.remove_dropped()
        return EVERY_S

    def tend(self, table_id: int, retain: bool = True) -> None:
        """One round for one table."""
        table = self._state().tables_by_id.get(table_id)
        if table is None or table.stream is None:
            return
        while self.compactor.compact(table_id) and not self._service.stopping:
            pass
        if retain:
            if clock_status(self._clock).state == "followed":  # while the clock is in doubt, nothing is too old
                position = retention_position(table, self._log, self._clock, self._retention.protect)
                if position is not None and position > self._retention.floor(table_id):
                    self._retention.retain(table_id, position)
            self.compactor.remove(table_id, self._retention.floor(table_id))
            self._ingest.tables.remember(table)


Protect = Callable[[int], int]


def retention_position(table: Table, log: StreamLog, clock: Clock, protect: Protect) -> int | None:
    """The log position below which all rows are older than the table keeps; None if that moves nothing.

    `protect` gives the position of a table from which on rows are still needed. Whole files only: a row may outlive its
    time by the span of its file, and the newest file always stays. The caller journals the floor before it removes anything.
    """
    keep_us = table.options.retention_us
    if keep_us is None:
        return None
    # A file that is missing must not keep the others for ever.
    segments = list_what_is_there(log.folder, table.id)
    if not segments:
        return None
    now = own_now(table, segments, clock)
    position = segments[0].first
    needed = protect(table.id)
    for segment in segments[:-1]:
        if segment.max_ts >= now - keep_us or segment.end > needed:
            break
        position = segment.end
    return position if position > segments[0].first else None


def own_now(table: Table, segments: Sequence[Segment], clock: Clock) -> int:
    """A table's own NOW, at which age is measured: its newest time under valid time, else the clock.

    So a replay of an old file is not thrown away as it is loaded. Neither is ahead of the clock's NOW for retention, which
    lags where much time is said to have passed that was not seen to. The file with the newest time always stays.
    """
    now = retention_now_us(clock)
    if table.options.time == "transaction":
        return now
    return min(max(s.max_ts for s in segments), now + table.options.max_ahead_us)
