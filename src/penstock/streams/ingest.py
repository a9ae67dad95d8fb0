"""The way in: readings as people and sensors send them become rows of the log, or are refused one by one.

A push goes through `readings` (names and types), `StaticRows.find` (which sensor), `rules` (time and order),
and `StreamLog.append`. Check and append of a table are one step under its lock, so the order in which readings
were judged is the order of the log. Good readings of a push are stored whatever becomes of the others.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, VERSION_COLUMN, Table
from penstock.clock import Clock
from penstock.errors import error, suggest
from penstock.settings import Settings
from penstock.streams.counting import Counters
from penstock.streams.discovery import Discovery
from penstock.streams.idempotency import HOUR_US, KeyFile, Keys, pack_receipt, stored_keys
from penstock.streams.keys import warm_up as warm_up_keys
from penstock.streams.layout import SIDECARS
from penstock.streams.log import LogMoved, Seen, StreamLog
from penstock.streams.memory import advance, load_memory, save_memory
from penstock.streams.readings import Readings, Times, read_readings, read_resolved, require_stream
from penstock.streams.receipt import Receipt
from penstock.streams.refusals import refuse
from penstock.streams.rules import ACCEPTED, warm_up
from penstock.streams.segments import list_what_is_there
from penstock.streams.sensor_order import SensorOrder, Verdict
from penstock.types import TIMESTAMP

Sids = np.ndarray[Any, np.dtype[np.int32]]

SIDECAR_EVERY_ROWS = 2_000_000


class Rows(Protocol):
    """What ingest asks of `StaticRows`."""

    @property
    def sids(self) -> Sids: ...

    def find(self, keys: list[pa.Array], rows: int | None = None) -> Sids: ...

    def current(self) -> pa.Table: ...


class State(Protocol):
    """What ingest asks of `CatalogState`."""

    @property
    def position(self) -> int: ...

    @property
    def tables(self) -> Mapping[str, Table]: ...

    @property
    def tables_by_id(self) -> Mapping[int, Table]: ...

    def rows(self, table_id: int) -> Any: ...


class _TableIngest:
    """Everything that ingest keeps for one table."""

    def __init__(self, keep_us: int) -> None:
        self.order = SensorOrder()
        self.keys = Keys(keep_us)
        self.counters = Counters()
        self.restored = False
        self.remembered_to = 0
        self.current: tuple[int, Sids] = (-1, np.empty(0, dtype=np.int32))


class Ingest:
    """All pushes go through here. Thread-safe; pushes to different tables do not wait for one another.

    `state` gives the catalog's current state. The catalog must apply an entry inside `StreamLog.still`: a push that
    looked at the state before an entry and came to the log after it looks again.
    """

    def __init__(
        self,
        log: StreamLog,
        state: Callable[[], State],
        clock: Clock,
        settings: Settings,
        discovery: Discovery | None = None,
    ) -> None:
        self._log = log
        self._discovery = discovery
        self._state = state
        self._clock = clock
        self._keep_us = settings.idempotency_keep_hours * HOUR_US
        self._tables: dict[int, _TableIngest] = {}
        self._lock = threading.Lock()

    # -- pushing

    def push(
        self,
        table: str,
        data: pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]],
        idempotency_key: str | None = None,
    ) -> Future[Receipt]:
        """Store readings; the receipt comes when the accepted ones are synced.

        Raises at once for what concerns the push as a whole (table_not_found, a wrong set of Arrow columns,
        too_busy); the future fails with disk_full. A failed push has stored nothing.
        """

        def read(found: Table) -> tuple[Readings, Callable[[Rows], Sids]]:
            readings = read_readings(found, data)
            return readings, lambda rows: rows.find(readings.keys, readings.count)

        return self._push(lambda: self._table_named(table), read, idempotency_key)

    def push_resolved(
        self, table: Table, sids: Sids, ts_us: Times | None, columns: Sequence[pa.Array]
    ) -> Future[Receipt]:
        """Store readings of sensors known by sid; columns in the order of the stream's fields.

        A time may be `rules.NO_TIME`. Readings of a sensor that was deleted meanwhile are refused.
        """

        def read(found: Table) -> tuple[Readings, Callable[[Rows], Sids]]:
            readings = read_resolved(found, len(sids), ts_us, columns)
            return readings, lambda rows: self._current_vids(found.id, rows)[sids]

        return self._push(lambda: self._table_with(table.id, table.name), read, None)

    # -- looking

    def counters(self, table: str) -> dict[str, Any]:
        """Since the start of the server: accepted, refused by condition, late, clamped, unordered, deduplicated."""
        found = self._table_named(table)
        with self._lock:
            ingest = self._tables.get(found.id)
        return (ingest.counters if ingest is not None else Counters()).as_dict()

    def sensors(self, table: str) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """By sid: newest time (`rules.NO_TIME`: none), and counts since the start of the server."""
        found = self._table_named(table)
        ingest = self._ingest(found)
        with ingest.order.lock:
            counts = ingest.order.counts.copy()
            newest = ingest.order.newest.copy()
        names = ("accepted", "refused", "late", "clamped", "deduplicated")
        return {"newest": newest, **{name: counts[:, i] for i, name in enumerate(names)}}

    # -- keeping

    def restore(self, tables: Iterable[Table]) -> None:
        """Read what must be known of the log now rather than at a table's first push; load compiled code too."""
        warm_up()
        warm_up_keys()
        pa.array([0])  # the first one imports pandas: most of a second, which no sender should wait for
        for table in tables:
            if table.stream is not None:
                self._ingest(table)

    def remember(self, table: Table, at_least_rows: int = SIDECAR_EVERY_ROWS) -> None:
        """Write the sidecar that shortens the next start, if that many rows came since the last one."""
        ingest = self._ingest(table)
        head = self._log.head(table.id)
        if head - ingest.remembered_to < max(at_least_rows, 1):
            return
        folder = self._sidecars(table.id)
        memory = load_memory(folder, head)
        wanted = table.options.deduplicate
        segments = list_what_is_there(self._log.folder, table.id)
        sid_of = self._state().rows(table.id).sids
        memory = advance(memory, segments, head, sid_of, wanted.within_us if wanted is not None else None)
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

    # -- inside

    def _push(
        self,
        lookup: Callable[[], Table],
        read: Callable[[Table], tuple[Readings, Callable[[Rows], Sids]]],
        key: str | None,
    ) -> Future[Receipt]:
        readings: Readings | None = None
        table: Table | None = None
        while True:
            latest = lookup()
            require_stream(latest)
            ingest = self._ingest(latest)
            if key is not None:
                with ingest.order.lock:
                    known = ingest.keys.find(key, self._clock.now_us())
                if known is not None:
                    return known
            if readings is None or latest != table:
                table = latest
                readings, resolve = read(table)
            if self._discovery is not None and readings.keys:
                # Before the lock: adding a sensor journals, and the journal waits for pushes under way.
                ingest.counters.discover(self._discovery.add_unknown(table, readings, self._rows_of(table)))
            with ingest.order.lock:
                try:
                    return self._judge(table, lookup, ingest, readings, resolve, key)
                except LogMoved:
                    continue

    def _judge(
        self,
        table: Table,
        lookup: Callable[[], Table],
        ingest: _TableIngest,
        readings: Readings,
        resolve: Callable[[Rows], Sids],
        key: str | None,
    ) -> Future[Receipt]:
        """Check readings and queue the good ones, as one step. Raises LogMoved with nothing changed."""
        order = ingest.order
        now = self._clock.now_us()
        seen = self._log.seen(table.id)
        if key is not None and (known := ingest.keys.find(key, now)) is not None:
            return known
        if lookup() != table:
            raise LogMoved
        order.settle(seen.failures)
        try:
            rows = self._state().rows(table.id)
            vids = resolve(rows)
            sids = _sids_of(rows.sids, vids, readings)
        except Exception:
            # The state may have moved under our hands; then the problem is not the sender's.
            if self._log.seen(table.id) != seen:
                raise LogMoved from None
            raise
        verdict = order.check(table, sids, readings.times, readings.fields, now)
        try:
            return self._queue(table, ingest, readings, vids, verdict, seen, key, now)
        except BaseException:
            order.take_back(verdict)
            raise

    def _queue(
        self,
        table: Table,
        ingest: _TableIngest,
        readings: Readings,
        vids: Sids,
        verdict: Verdict,
        seen: Seen,
        key: str | None,
        now: int,
    ) -> Future[Receipt]:
        good = verdict.code == ACCEPTED
        accepted = int(good.sum())
        refused = refuse(table, readings, vids, verdict) if accepted < readings.count else ()
        receipt = Receipt(accepted, refused)
        answer: Future[Receipt] = Future()
        if accepted == 0:
            if self._log.seen(table.id) != seen:
                raise LogMoved
            stored: Future[int] = Future()
            stored.set_result(self._log.head(table.id))
        else:
            batch = _batch(table, vids, verdict, readings.fields, good, accepted)
            body = pack_receipt(receipt) if key is not None else None
            stored = self._log.append(table, batch, key, receipt=body, seen=seen)
            ingest.order.under_way.append((stored, verdict))
        if key is not None:
            ingest.keys.begin(key, now, answer)
        stored.add_done_callback(lambda future: _finish(future, answer, ingest, receipt, verdict, key))
        return answer

    def _ingest(self, table: Table) -> _TableIngest:
        with self._lock:
            ingest = self._tables.setdefault(table.id, _TableIngest(self._keep_us))
        if not ingest.restored:
            with ingest.order.lock:
                if not ingest.restored:
                    self._restore(table, ingest)
                    ingest.restored = True
        return ingest

    def _restore(self, table: Table, ingest: _TableIngest) -> None:
        head = self._log.head(table.id)
        folder = self._sidecars(table.id)
        memory = load_memory(folder, head)
        ingest.remembered_to = memory.position
        wanted = table.options.deduplicate
        segments = list_what_is_there(self._log.folder, table.id)
        sid_of = self._state().rows(table.id).sids
        memory = advance(memory, segments, head, sid_of, wanted.within_us if wanted is not None else None)
        ingest.order.failures = self._log.seen(table.id).failures
        ingest.order.restore(table, memory, segments)
        records = stored_keys(self._log.folder / str(table.id), self.key_file(table.id), self._clock.now_us())
        ingest.keys.restore(records)

    def _rows_of(self, table: Table) -> Callable[[], Any]:
        return lambda: self._state().rows(table.id)

    def _current_vids(self, table_id: int, rows: Rows) -> Sids:
        """The vid of each live sensor by sid, -1 where it is gone. Held until the journal moves."""
        ingest = self._tables[table_id]
        position = self._state().position
        if ingest.current[0] != position:
            live = rows.current()
            vids = np.full(int(rows.sids.max()) + 1 if len(rows.sids) else 0, -1, dtype=np.int32)
            vids[live.column("_sid").to_numpy()] = live.column("_vid").to_numpy()
            ingest.current = (position, vids)
        return ingest.current[1]

    def _table_named(self, name: str) -> Table:
        tables = self._state().tables
        found = tables.get(name)
        if found is None:
            raise error("table_not_found", table=name, hint=suggest(name, tables))
        return found

    def _table_with(self, table_id: int, name: str) -> Table:
        found = self._state().tables_by_id.get(table_id)
        if found is None:
            raise error("table_not_found", table=name)
        return found

    def _sidecars(self, table_id: int) -> Path:
        return self._log.data_folder / SIDECARS / str(table_id)


def _finish(
    stored: Future[int],
    answer: Future[Receipt],
    ingest: _TableIngest,
    receipt: Receipt,
    verdict: Verdict,
    key: str | None,
) -> None:
    """Runs in the log's thread once the rows are synced or have failed."""
    problem = stored.exception()
    done = None if problem is not None else Receipt(receipt.accepted, receipt.refused, stored.result())
    if key is not None:
        ingest.keys.finish(key, done)
    if done is None:
        ingest.counters.fail(receipt.accepted)
        answer.set_exception(problem)
    else:
        ingest.counters.add(verdict, receipt.refused)
        answer.set_result(done)


def _sids_of(sid_of: Sids, vids: Sids, readings: Readings) -> Sids:
    sids = np.full(len(vids), -1, dtype=np.int32)
    known = vids >= 0
    if known.all():
        np.take(sid_of, vids, out=sids)
    else:
        sids[known] = sid_of[vids[known]]
    if readings.bad:
        sids[list(readings.bad)] = -1
    return sids


def _batch(
    table: Table,
    vids: Sids,
    verdict: Verdict,
    fields: list[pa.Array],
    good: np.ndarray[Any, np.dtype[np.bool_]],
    accepted: int,
) -> pa.RecordBatch:
    assert table.stream is not None
    rows = len(vids)
    times = pa.Array.from_buffers(TIMESTAMP.to_arrow(), rows, [None, pa.py_buffer(verdict.times)])
    names = [VERSION_COLUMN.name, TIME_COLUMN, *(f.name for f in table.stream.fields)]
    batch = pa.RecordBatch.from_arrays([pa.array(vids, pa.int32()), times, *fields], names=names)
    return batch if accepted == rows else batch.filter(pa.array(good))
