"""What ingest keeps of each table: order, idempotency keys and counts, read from disk when they are first asked for.

All of it follows from the log, so it may be lost. Sidecars (`sensor_order`, `idempotency`) only shorten the next start.
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from penstock.catalog.model import Table
from penstock.catalog.rows import Int32s, StaticRows
from penstock.catalog.state import CatalogState
from penstock.clock import Clock
from penstock.streams.ingest.idempotency import KeyFile, Keys, stored_keys
from penstock.streams.ingest.readings import ReadingRefusal
from penstock.streams.ingest.rules import ACCEPTED, CLAMPED, DUPLICATE, LATE, UNORDERED
from penstock.streams.ingest.sensor_order import Memory, SensorOrder, Verdict, advance, load_memory, save_memory
from penstock.streams.log.segments import SIDECARS, Segment, list_what_is_there
from penstock.streams.log.stream_log import StreamLog

SIDECAR_EVERY_ROWS = 2_000_000


class ReadingCounters:
    """Counts of pushes that were answered, since the start. `failed` counts good readings that could not be written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()
        names = ("accepted", "late", "clamped", "unordered", "deduplicated", "failed", "discovered")
        self._counts: dict[str, int] = dict.fromkeys(names, 0)

    def add(self, verdict: Verdict, refused: tuple[ReadingRefusal, ...]) -> None:
        marks = np.bincount(verdict.marks, minlength=8)
        counts = {"accepted": int((verdict.code == ACCEPTED).sum())}
        for name, mark in (("late", LATE), ("clamped", CLAMPED), ("unordered", UNORDERED)):
            counts[name] = int(marks[[m for m in range(8) if m & mark]].sum())
        if len(verdict.keys):
            counts["deduplicated"] = int((verdict.code == DUPLICATE).sum())
        reasons = Counter(refusal.condition for refusal in refused)
        reasons.pop("duplicate_reading", None)
        with self._lock:
            self._refused += reasons
            for name, count in counts.items():
                self._counts[name] += count

    def note(self, what: str, count: int) -> None:
        """So many readings have `failed`, or sensors were `discovered`."""
        if count:
            with self._lock:
                self._counts[what] += count

    def as_dict(self) -> dict[str, Any]:
        """Flat numbers, and `refused` by condition."""
        with self._lock:
            return {"accepted": 0, "refused": dict(self._refused), **self._counts}


class TableIngest:
    """Everything that ingest keeps for one table. `order.lock` guards it."""

    def __init__(self, keep_us: int) -> None:
        self.order = SensorOrder()
        self.keys = Keys(keep_us)
        self.counters = ReadingCounters()
        self.restored = False
        self.remembered_to = 0
        self._current: tuple[int, Int32s] = (-1, np.empty(0, dtype=np.int32))

    def current_vids(self, position: int, rows: StaticRows) -> Int32s:
        """The vid of each live sensor by sid, -1 where it is gone. Held until the journal moves from `position`."""
        if self._current[0] != position:
            live = rows.current()
            vids = np.full(int(rows.sids.max()) + 1 if len(rows.sids) else 0, -1, dtype=np.int32)
            vids[live.column("_sid").to_numpy()] = live.column("_vid").to_numpy()
            self._current = (position, vids)
        return self._current[1]


class IngestTables:
    """One `TableIngest` per table, and the sidecars next to the log. Thread-safe.

    `keep_us` is how long an idempotency key is kept.
    """

    def __init__(self, log: StreamLog, state: Callable[[], CatalogState], clock: Clock, keep_us: int) -> None:
        self._log = log
        self._state = state
        self._clock = clock
        self._keep_us = keep_us
        self._tables: dict[int, TableIngest] = {}
        self._lock = threading.Lock()

    def of(self, table: Table) -> TableIngest:
        """What is kept for a table; the first caller reads what must be known of the log."""
        with self._lock:
            ingest = self._tables.setdefault(table.id, TableIngest(self._keep_us))
        if not ingest.restored:
            with ingest.order.lock:
                if not ingest.restored:
                    self._restore(table, ingest)
                    ingest.restored = True
        return ingest

    def counters(self, table_id: int) -> ReadingCounters:
        """Its counts since the start of the server, without reading the log for them."""
        with self._lock:
            ingest = self._tables.get(table_id)
        return ingest.counters if ingest is not None else ReadingCounters()

    def remember(self, table: Table, at_least_rows: int = SIDECAR_EVERY_ROWS) -> None:
        """Write the sidecar that shortens the next start, if that many rows came since the last one."""
        ingest = self.of(table)
        head = self._log.head(table.id)
        if head - ingest.remembered_to < max(at_least_rows, 1):
            return
        folder = self._sidecars(table.id)
        memory = self._advanced(table, load_memory(folder, head), self._segments(table), head)
        save_memory(memory, folder, self._log.temporary)
        ingest.remembered_to = head

    def key_file(self, table_id: int) -> KeyFile:
        """Where compaction takes the idempotency keys of the segments it replaces."""
        return KeyFile(self._sidecars(table_id), self._log.temporary, self._keep_us)

    def forget(self, table_id: int) -> None:
        """The table was dropped: its state and sidecars go."""
        with self._lock:
            self._tables.pop(table_id, None)
        shutil.rmtree(self._sidecars(table_id), ignore_errors=True)

    def _restore(self, table: Table, ingest: TableIngest) -> None:
        head = self._log.head(table.id)
        memory = load_memory(self._sidecars(table.id), head)
        ingest.remembered_to = memory.position
        segments = self._segments(table)
        memory = self._advanced(table, memory, segments, head)
        ingest.order.failures = self._log.seen(table.id).failures
        ingest.order.restore(table, memory, segments)
        records = stored_keys(self._log.folder / str(table.id), self.key_file(table.id), self._clock.now_us())
        ingest.keys.restore(records)

    def _advanced(self, table: Table, memory: Memory, segments: list[Segment], head: int) -> Memory:
        wanted = table.options.deduplicate
        sid_of = self._state().rows(table.id).sids
        return advance(memory, segments, head, sid_of, wanted.within_us if wanted is not None else None)

    def _segments(self, table: Table) -> list[Segment]:
        return list_what_is_there(self._log.folder, table.id)

    def _sidecars(self, table_id: int) -> Path:
        return self._log.data_folder / SIDECARS / str(table_id)
