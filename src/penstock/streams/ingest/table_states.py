"""What ingest keeps of each table: order, idempotency keys and counts, read from disk when they are first asked for.

All of it follows from the log, so it may be lost. Sidecars (`order_memory`, `idempotency`) only shorten the next start.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from penstock.catalog.model import Table
from penstock.clock import Clock
from penstock.streams.catalog_view import Sids, StreamCatalog, StreamCatalogRows
from penstock.streams.ingest.idempotency import KeyFile, Keys, stored_keys
from penstock.streams.ingest.order_memory import Memory, advance, load_memory, save_memory
from penstock.streams.ingest.reading_counts import ReadingCounters
from penstock.streams.ingest.sensor_order import SensorOrder
from penstock.streams.log.layout import SIDECARS
from penstock.streams.log.segments import Segment, list_what_is_there
from penstock.streams.log.stream_log import StreamLog


class TableIngest:
    """Everything that ingest keeps for one table. `order.lock` guards it."""

    def __init__(self, keep_us: int) -> None:
        self.order = SensorOrder()
        self.keys = Keys(keep_us)
        self.counters = ReadingCounters()
        self.restored = False
        self.remembered_to = 0
        self._current: tuple[int, Sids] = (-1, np.empty(0, dtype=np.int32))

    def current_vids(self, position: int, rows: StreamCatalogRows) -> Sids:
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

    def __init__(self, log: StreamLog, state: Callable[[], StreamCatalog], clock: Clock, keep_us: int) -> None:
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

    def remember(self, table: Table, at_least_rows: int) -> None:
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
