"""STEAM's stream manager: opens the sensors that queries want, polls them, closes them when no query does.

Comes in: demand (a holder, usually a standing query, wants these sensors of that table). Goes out: readings to
ingest, and openings and closings to the journal. A sensor that several holders want is opened once. Sensors
run on `polling`'s threads by `sensor_lifecycle`'s rules; what they read travels through `sensor_forwarder`. No lock is held
while ingest, the journal, the catalog or a sensor is called.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.catalog.model import Table
from penstock.catalog.rows import StaticRows
from penstock.catalog.state import CatalogState
from penstock.clock import Clock
from penstock.expr.evaluate import evaluate
from penstock.expr.expression import Expr, columns_of
from penstock.sensors.address_rules import AddressRules
from penstock.sensors.registry import mode_of
from penstock.services import Service
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.rules import NO_TIME
from penstock.streams.sources.polling import Poller
from penstock.streams.sources.sensor_forwarder import Observe, SensorForwarder
from penstock.streams.sources.sensor_lifecycle import ManagerLimits, SensorLifecycle
from penstock.streams.sources.sensor_state import OpenedSensor, SensorState

NO_SENSORS = np.zeros(0, dtype=np.int32)


class TableDemand:
    """Which holders want which sensors of one table, and the records of sensors that were ever wanted."""

    __slots__ = ("counts", "holders", "seen", "sensors")

    def __init__(self) -> None:
        self.seen: object = None  # the table and its rows as of the last `refresh`
        self.holders: dict[str, NDArray[np.int32]] = {}  # sorted sids
        self.counts = np.zeros(0, dtype=np.int32)  # sid -> number of holders
        self.sensors: dict[int, OpenedSensor] = {}

    def replace(self, holder: str, sids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Set what a holder wants. Answers the sids that have become wanted, and those that are not wanted any more."""
        before = self.holders.pop(holder, NO_SENSORS)
        if len(sids):
            self.holders[holder] = sids
            if int(sids[-1]) >= len(self.counts):
                self.counts = np.concatenate([self.counts, np.zeros(int(sids[-1]) + 64, dtype=np.int32)])
        touched = np.union1d(before, sids)
        was = self.counts[touched] > 0
        self.counts[before] -= 1
        self.counts[sids] += 1
        return np.asarray(touched[was != (self.counts[touched] > 0)], dtype=np.int32)

    def wanted(self, sid: int) -> bool:
        return sid < len(self.counts) and bool(self.counts[sid])


ALWAYS_ON = "always on"
_ROW_BYTES = 1024  # of one waiting reading with its Python objects, generously


class StreamManager:
    """All opened sensors of one server. Call `refresh` when the catalog changed, `close` at the end."""

    def __init__(
        self,
        state: Callable[[], CatalogState],
        ingest: Ingest,
        observe: Observe,
        clock: Clock,
        limits: ManagerLimits | None = None,
        rules: AddressRules | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._ingest = ingest
        self._lock = threading.Lock()
        self._tables: dict[int, TableDemand] = {}
        self._closing = False
        limits = limits or ManagerLimits()
        self._forwarder = SensorForwarder(ingest, observe, self._start_reading, limits.queue_max_bytes // _ROW_BYTES)
        self._stepper = SensorLifecycle(
            clock, self._forwarder, limits, lambda opened: self._poller.schedule(opened), self._newest_us, rules
        )
        self._poller: Poller[OpenedSensor] = Poller(
            self._stepper.step, self._stepper.note_hung, self._stepper.note_held, limits.poll
        )
        self._close_inherited()

    def services(self) -> list[Service]:
        return [*self._forwarder.services(), *self._poller.services()]

    def demand(self, holder: str, table_id: int, sids: Iterable[int] | NDArray[Any]) -> None:
        """From now on the holder wants exactly these sensors of the table (nothing, if none)."""
        given = sids if isinstance(sids, np.ndarray) else np.fromiter(sids, dtype=np.int32)
        wanted = np.unique(given).astype(np.int32, copy=False)
        with self._lock:
            demand = self._tables.setdefault(table_id, TableDemand())
            if np.array_equal(demand.holders.get(holder, NO_SENSORS), wanted):
                return
            changed = demand.replace(holder, wanted)
        if len(changed):
            self._settle(table_id, changed)

    def release(self, holder: str) -> None:
        """The holder wants nothing any more."""
        with self._lock:
            held = [table_id for table_id, demand in self._tables.items() if holder in demand.holders]
        for table_id in held:
            self.demand(holder, table_id, NO_SENSORS)

    def refresh(self, table_id: int | None = None) -> None:
        """The catalog changed: sensors came, went or moved, or a table did. Keeps ALWAYS ON tables open."""
        state = self._state()
        with self._lock:
            known = {*state.tables_by_id, *self._tables} if table_id is None else {table_id}
        for each in sorted(known):
            table = state.tables_by_id.get(each)
            if table is None:
                self._forget(each)
            elif _opens(table):
                self._refresh_table(state, table)

    def _refresh_table(self, state: CatalogState, table: Table) -> None:
        rows = state.rows(table.id)
        live = rows.live_sids()
        # Rows only come by new versions and only go by fewer live ones, so these numbers tell every change.
        seen = (table, rows.count, len(live))
        with self._lock:
            demand = self._tables.setdefault(table.id, TableDemand())
            if demand.seen == seen:
                return
            demand.seen = seen
            demand.replace(ALWAYS_ON, np.array(live if table.options.always_on else [], dtype=np.int32))
            touched = np.union1d(np.flatnonzero(demand.counts), np.fromiter(demand.sensors, dtype=np.int64))
        if len(touched):
            self._settle(table.id, touched.astype(np.int32))

    def _forget(self, table_id: int) -> None:
        """The table was dropped."""
        with self._lock:
            demand = self._tables.pop(table_id, None)
            gone = [s for s in demand.sensors.values() if s.wanted] if demand is not None else []
            for each in gone:
                each.wanted = False
        self._poller.schedule_many(gone)

    def states(self, table_id: int) -> list[SensorState]:
        """Every sensor that was wanted since the server started, or has ended before, as it is now, by sid."""
        state = self._state()
        table = state.tables_by_id.get(table_id)
        now_us = self._clock.now_us()
        with self._lock:
            demand = self._tables.get(table_id) or TableDemand()
            sensors = dict(demand.sensors)
            counts = demand.counts.copy()
        silent = [sid for sid in (state.ended(table_id) if table is not None else ()) if sid not in sensors]
        if table is not None and silent:
            for sid, address in _addresses(state, table_id, np.array(silent, dtype=np.int32)).items():
                sensors[sid] = _ended(table, sid, address)
        shown = sorted(sensors.values(), key=lambda s: s.sid)
        return [each.snapshot(now_us, int(counts[each.sid]) if each.sid < len(counts) else 0) for each in shown]

    def open_count(self, table_id: int | None = None) -> int:
        """Sensors that are wanted and have not ended."""
        with self._lock:
            chosen = [d for t, d in self._tables.items() if table_id is None or t == table_id]
            return sum(1 for d in chosen for s in d.sensors.values() if s.wanted and s.shown != "ended")

    def close(self, timeout_s: float = 2.0) -> None:
        """Close every sensor, store what was read, journal the closings, end the threads."""
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            self._closing = True
            sensors = [s for demand in self._tables.values() for s in demand.sensors.values() if s.wanted]
            for each in sensors:
                each.wanted = False
        self._poller.schedule_many(sensors)
        self._poller.drain(timeout_s * 0.5)
        self._stepper.stop()
        self._forwarder.drain(timeout_s * 0.3)
        self._poller.close(max(0.1, deadline_s - time.monotonic()))
        self._forwarder.close(max(0.1, deadline_s - time.monotonic()))

    def _close_inherited(self) -> None:
        """Journal as closed what a server that was killed has left open: no server has read them since."""
        state = self._state()
        for table in list(state.tables_by_id.values()):
            if _opens(table):
                for sid, spans in state.observations(table.id).items():
                    if spans and spans[-1][1] is None:
                        self._forwarder.note(table.id, sid, "closed")

    def _newest_us(self, table: Table, sid: int) -> int | None:
        """The newest time that the log holds of a sensor."""
        newest = self._ingest.sensors(table.name)["newest"]
        return int(newest[sid]) if sid < len(newest) and newest[sid] != NO_TIME else None

    def _start_reading(self, table_id: int, sids: list[int]) -> None:
        """The journal knows that these sensors are open: their readings count from here on."""
        with self._lock:
            demand = self._tables.get(table_id)
            ready = [demand.sensors[sid] for sid in sids if sid in demand.sensors] if demand is not None else []
        self._poller.schedule_many(ready)

    def _settle(self, table_id: int, sids: NDArray[np.int32]) -> None:
        """Open those that are wanted and live, close those that are not, reopen those that moved."""
        state = self._state()
        table = state.tables_by_id.get(table_id)
        live = _addresses(state, table_id, sids) if table is not None and _opens(table) else {}
        ended = state.ended(table_id) if live else ()
        changed: list[OpenedSensor] = []
        with self._lock:
            demand = self._tables.get(table_id)
            if demand is None or self._closing:
                return
            for sid in sids.tolist():
                address = live.get(sid)
                if table is not None and address is not None and demand.wanted(sid):
                    if sid in ended and sid not in demand.sensors:
                        demand.sensors[sid] = _ended(table, sid, address)
                    if _want(demand.sensors, table, sid, address):
                        changed.append(demand.sensors[sid])
                elif sid in demand.sensors and demand.sensors[sid].wanted:
                    demand.sensors[sid].wanted = False
                    changed.append(demand.sensors[sid])
        self._poller.schedule_many(changed)


def _want(sensors: dict[int, OpenedSensor], table: Table, sid: int, address: str) -> bool:
    """Make the record say that the sensor is wanted, and how it is reached; whether a step must follow."""
    each = sensors.get(sid)
    if each is None:
        each = sensors[sid] = OpenedSensor(table, sid, address)
    moved = each.address != address or (each.table is not table and _way(each.table) != _way(table))
    each.table, each.address = table, address
    if each.wanted and not moved:
        return False
    each.reopen = each.reopen or moved
    each.wanted = True
    if each.shown == "closed":
        each.shown = "opening"
    return True


def _ended(table: Table, sid: int, address: str) -> OpenedSensor:
    """A sensor that said END when another server ran: it is not asked again, as it would not be here."""
    opened = OpenedSensor(table, sid, address)
    opened.shown = "ended"
    return opened


def _way(table: Table) -> object:
    """What a sensor was created from: when it changes, the sensor is opened anew."""
    assert table.stream is not None
    return table.stream.connector, table.stream.fields, table.stream.options


def _opens(table: Table) -> bool:
    """Whether sensors of this table are opened at all; those of pushed tables call by themselves."""
    return mode_of(table) in ("pull", "push")


def _addresses(state: CatalogState, table_id: int, sids: NDArray[np.int32]) -> dict[int, str]:
    """Addresses of those of these sensors that are live. A sensor without an address cannot be opened."""
    rows = state.rows(table_id).current()
    known = np.asarray(rows.column("_sid"))
    chosen = np.flatnonzero(np.isin(known, sids))
    addresses = rows.column("_address").take(pa.array(chosen)).to_pylist()
    pairs = zip(known[chosen].tolist(), addresses, strict=True)
    return {sid: address for sid, address in pairs if address is not None}


def surviving(static_predicate: Expr | None, rows: StaticRows | pa.Table) -> NDArray[np.int32]:
    """The initial scan: sids of the live sensors for which the predicate is true; NULL is not. No predicate: all of them.

    Static columns come first, so that only sensors which may matter are ever opened. Run when a query is registered and
    again whenever rows of its table change.
    """
    table = rows if isinstance(rows, pa.Table) else rows.current()
    sids = np.asarray(table.column("_sid")).astype(np.int32)
    if static_predicate is None or not len(sids):
        return sids
    columns: Mapping[str, pa.Array] = {
        name: table.column(name).combine_chunks() for name in columns_of(static_predicate)
    }
    verdict = evaluate(static_predicate, columns, len(sids), {})
    return np.asarray(sids[np.asarray(verdict.fill_null(False))], dtype=np.int32)
