"""Sources of whole tables, run: started when their table is there, stopped when it is dropped, shown by SHOW INPUTS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.sensors.address_rules import AddressRules
from penstock.sensors.registry import find_connector, mode_of, parse_options
from penstock.services import Service
from penstock.streams.ingest.readings import Push
from penstock.streams.sources.mqtt_source import MqttSource, TableInbox


class Sources:
    """All sources of one server. `follow` after every change of definitions; thread-safe."""

    def __init__(
        self,
        push: Push,
        state: Callable[[], CatalogState],
        folder_id: str,
        rules: AddressRules | None = None,
    ) -> None:
        self._rules = rules or AddressRules()
        self._push = push
        self._state = state
        self._folder_id = folder_id
        self._lock = threading.Lock()
        self._running: dict[int, tuple[Table, TableInbox, MqttSource]] = {}
        self._closed = False

    def follow(self) -> None:
        """Start and stop what the tables, as they are now, ask for."""
        tables = self._state().tables_by_id
        with self._lock:
            if self._closed:
                return
            gone = [self._running.pop(table_id)[2] for table_id in self._running.keys() - tables.keys()]
            for table in list(tables.values()):
                if table.id not in self._running and mode_of(table) == "subscribed":
                    self._start(table)
        for source in gone:
            source.stop(forever=True)

    def _start(self, table: Table) -> None:
        assert table.stream is not None and table.stream.connector is not None
        connector = find_connector(table.stream.connector)
        inbox = TableInbox(table, self._push, self._state)
        # With its number: a table that is created again must not inherit what was kept for its namesake.
        identity = f"penstock-{self._folder_id[:8]}-{table.name}-{table.id}"
        source = MqttSource(inbox, parse_options(connector, table.stream.options), identity, self._rules)
        self._running[table.id] = (table, inbox, source)
        source.service.start()

    def services(self) -> list[Service]:
        with self._lock:
            return [source.service for _, _, source in self._running.values()]

    def facts(self) -> list[dict[str, Any]]:
        """Each source as SHOW INPUTS and the metrics have it, by table."""
        with self._lock:
            running = sorted(self._running.values(), key=lambda each: each[0].name)
        out = []
        for table, inbox, source in running:
            assert table.stream is not None
            kind, facts = table.stream.connector, source.facts()
            names = {"name": f"{kind} {table.name}", "kind": kind, "table_name": table.name}
            last_error = facts.last_error or inbox.last_problem
            ignored = {"ignored_names": inbox.ignored_names()}
            out.append({**names, **asdict(facts), "last_error": last_error, **ignored, **inbox.as_dict()})
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
            source.service.join(max(0.1, until_s - time.monotonic()))
