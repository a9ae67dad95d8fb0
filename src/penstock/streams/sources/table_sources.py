"""Sources of whole tables, run: started when their table is there, stopped when it is dropped, shown by SHOW INPUTS."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.sensors.address_rules import AddressRules
from penstock.sensors.base import Source
from penstock.sensors.registry import find_connector, parse_options
from penstock.services import Service
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.sources.sensor_forwarder import will_pass

_LOGGER = logging.getLogger("penstock.sources")
_RETRY_S = 1.0
_ATTEMPTS = 5  # at what does not look as if it would pass

Push = Callable[[str, Sequence[Mapping[str, Any]]], "Future[IngestReceipt]"]


class PushDelivery:
    """Rows that are pushed until they are stored or refused for good. `advance` is called from one thread."""

    def __init__(
        self, push: Push, table: str, rows: Sequence[Mapping[str, Any]], counts: InputCounts, wake: Callable[[], None]
    ) -> None:
        self._push = push
        self._table = table
        self._rows = rows
        self._counts = counts
        self._wake = wake
        self._future: Future[IngestReceipt] | None = None
        self._retry_at_s = 0.0
        self._attempts = 0
        self._done = False
        self.advance()

    def advance(self) -> bool:
        if self._done:
            return True
        try:
            if self._future is None:
                if time.monotonic() < self._retry_at_s:
                    return False
                self._future = self._push(self._table, self._rows)
                self._future.add_done_callback(lambda _: self._wake())
            if not self._future.done():
                return False
            self._take(self._future.result())
            self._done = True
        except Exception as cause:
            self._future = None
            self._failed(cause)
        return self._done

    def _take(self, receipt: IngestReceipt) -> None:
        duplicates = sum(r.condition == "duplicate_reading" for r in receipt.refused)
        self._counts.stored(receipt.accepted, duplicates)
        for refusal in receipt.refused:
            if refusal.condition != "duplicate_reading":
                self._counts.refuse(refusal.condition, refusal.message)

    def _failed(self, cause: Exception) -> None:
        self._retry_at_s = time.monotonic() + _RETRY_S
        condition = cause.condition if isinstance(cause, PenstockError) else "internal_error"
        if will_pass(cause):
            self._counts.wait_for(str(cause))
            return
        self._attempts += 1
        if condition == "internal_error" and self._attempts < _ATTEMPTS:
            self._counts.wait_for(str(cause))
            return
        # Kept, it would come back for ever and hold up everything behind it.
        if condition != "table_not_found":
            _LOGGER.error("%d readings of table %s were refused: %s", len(self._rows), self._table, cause)
        self._counts.refuse(condition, str(cause), len(self._rows))
        self._done = True


class TableInbox:
    """The `Inbox` of one table's source."""

    def __init__(self, table: Table, push: Push, state: Callable[[], CatalogState]) -> None:
        self._id = table.id
        self._name = table.name
        self._push = push
        self._state = state
        self.counts = InputCounts()

    def table(self) -> Table | None:
        return self._state().tables_by_id.get(self._id)

    def addresses(self) -> tuple[int, Mapping[str, Mapping[str, Any]]]:
        table = self.table()
        if table is None:
            return -1, {}
        rows = self._state().rows(self._id)
        # Every change of rows makes a version or ends a live one.
        version = hash((rows.count, len(rows.live_sids())))
        current = rows.current()
        keys = [current.column(name).to_pylist() for name in table.key]
        addresses = current.column("_address").to_pylist()
        return version, {
            address: dict(zip(table.key, key, strict=True))
            for address, key in zip(addresses, zip(*keys, strict=True), strict=True)
            if address
        }

    def push(self, rows: Sequence[Mapping[str, Any]], wake: Callable[[], None]) -> PushDelivery:
        return PushDelivery(self._push, self._name, rows, self.counts, wake)

    def came(self, messages: int, size: int) -> None:
        self.counts.came(messages, size)

    def refuse(self, condition: str, message: str, count: int = 1) -> None:
        self.counts.refuse(condition, message, count)

    def ignore(self, names: Iterable[str]) -> None:
        self.counts.ignore(names)


class Sources:
    """All sources of one server. `follow` after every change of definitions; thread-safe."""

    def __init__(
        self,
        push: Push,
        state: Callable[[], CatalogState],
        clock: Clock,
        folder_id: str,
        rules: AddressRules | None = None,
    ) -> None:
        self._rules = rules or AddressRules()
        self._push = push
        self._state = state
        self._clock = clock
        self._folder_id = folder_id
        self._lock = threading.Lock()
        self._running: dict[int, tuple[Table, TableInbox, Source]] = {}
        self._closed = False

    def follow(self) -> None:
        """Start and stop what the tables, as they are now, ask for."""
        tables = self._state().tables_by_id
        with self._lock:
            if self._closed:
                return
            gone = [self._running.pop(table_id)[2] for table_id in self._running.keys() - tables.keys()]
            for table in list(tables.values()):
                if table.id not in self._running and is_subscribed(table):
                    self._start(table)
        for source in gone:
            source.stop(forever=True)

    def _start(self, table: Table) -> None:
        assert table.stream is not None and table.stream.connector is not None
        connector = find_connector(table.stream.connector)
        assert connector.source is not None
        inbox = TableInbox(table, self._push, self._state)
        # With its number: a table that is created again must not inherit what was kept for its namesake.
        identity = f"penstock-{self._folder_id[:8]}-{table.name}-{table.id}"
        source = connector.source(inbox, parse_options(connector, table.stream.options), self._clock, identity)
        source.rules = self._rules
        self._running[table.id] = (table, inbox, source)
        source.start()

    def services(self) -> list[Service]:
        with self._lock:
            return [source.service for _, _, source in self._running.values() if source.service is not None]

    def facts(self) -> list[dict[str, Any]]:
        """Each source as SHOW INPUTS and the metrics have it, by table."""
        with self._lock:
            running = sorted(self._running.values(), key=lambda each: each[0].name)
        out = []
        for table, inbox, source in running:
            facts = source.facts()
            assert table.stream is not None
            out.append(
                {
                    "name": f"{table.stream.connector} {table.name}",
                    "kind": table.stream.connector,
                    "table_name": table.name,
                    "state": facts.state,
                    "target": facts.target,
                    "connects": facts.connects,
                    "in_flight": facts.in_flight,
                    "last_error": facts.last_error or inbox.counts.last_problem,
                    "ignored_names": inbox.counts.ignored_names(),
                    **inbox.counts.as_dict(),
                }
            )
        return out

    def state_of(self, table_id: int) -> str | None:
        """How the sensors of a table are reached right now; None where it has no source."""
        with self._lock:
            found = self._running.get(table_id)
        return None if found is None else found[2].facts().state

    def close(self, timeout_s: float = 5.0) -> None:
        with self._lock:
            self._closed = True
            sources = [source for _, _, source in self._running.values()]
        for source in sources:
            source.stop()
        until_s = time.monotonic() + timeout_s
        for source in sources:
            source.join(max(0.1, until_s - time.monotonic()))


def is_subscribed(table: Table) -> bool:
    """Whether a source reads for this table, instead of its sensors one by one."""
    if table.stream is None or table.stream.connector is None:
        return False
    try:
        return find_connector(table.stream.connector).source is not None
    except PenstockError:
        return False
