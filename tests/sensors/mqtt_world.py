"""A database that reads from a broker, and somebody who publishes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho

from penstock.clock import WallClock
from penstock.database.database import Database
from penstock.settings import Settings
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from tests.support.local_engine import LocalEngine
from tests.support.mosquitto import Mosquitto


def wait_until(true: Callable[[], Any], timeout_s: float = 60.0, what: str = "") -> None:
    """A bound for a broken machine, not a measure: what is waited for decides."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, what or "it did not come about"
        time.sleep(0.01)


class Plant:
    """A database in this process without Spark."""

    def __init__(self, folder: Path, broker: Mosquitto) -> None:
        self.broker = broker
        self._folder = folder
        self.open()

    def open(self) -> None:
        settings = Settings(data=str(self._folder))
        self.db = Database(settings, WallClock(), engine=lambda *a: LocalEngine(*a))  # type: ignore[arg-type,return-value]
        self.db.start()

    def create(
        self, table: str, stream: str = "ppm DOUBLE, seq BIGINT", options: str = "", name: str = "probes"
    ) -> None:
        """A stream type of the broker, and a table of it; `options` are those of the connector."""
        more = f", {options}" if options else ""
        self.db.execute(
            f"CREATE STREAM TYPE {name}_type AS ({stream}) USING mqtt OPTIONS (url '{self.broker.url}'{more})"
        )
        self.db.execute(f"CREATE TABLE {name} ({table.replace('STREAM', f'STREAM {name}_type')}")
        wait_until(lambda: self.facts(name)["state"] == "connected", what=str(self.facts(name)))

    def facts(self, name: str = "probes") -> dict[str, Any]:
        return next(f for f in self.db.sources.facts() if f["table_name"] == name)

    def rows(self, *columns: str, name: str = "probes") -> list[tuple[Any, ...]]:
        """What the log holds; a reading with the static row of its sensor beside it."""
        table = self.db.catalog_table(name)
        static = self.db.catalog.state.rows(table.id).versions().to_pylist()
        logged = [c for c in columns if c not in {s.name for s in table.columns} and c != "_address"]
        found: list[tuple[Any, ...]] = []
        for piece in slices(list_segments(self.db.log.folder, table.id), 0, 2**60):
            for row in read_slice(piece, ["_vid", *logged]).to_pylist():
                whole = {**static[row["_vid"]], **row}
                found.append(tuple(whole[c] for c in columns))
        return found

    def wait_for(self, count: int, name: str = "probes") -> None:
        head = lambda: self.db.log.head(self.db.catalog_table(name).id)  # noqa: E731
        wait_until(lambda: head() >= count, what=f"{head()} of {count}: {self.facts(name)}")


class Publisher:
    """Publishes with QoS 1 and knows what the broker has taken."""

    def __init__(self, broker: Mosquitto, user: str = "", password: str = "") -> None:
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.max_inflight_messages_set(1000)
        self._taken: set[int] = set()
        self._client.on_publish = lambda client, data, number, reason, properties: self._taken.add(number)
        if user:
            self._client.username_pw_set(user, password)
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()

    def send(self, messages: Iterable[tuple[str, str | bytes]], qos: int = 1, retain: bool = False) -> None:
        """Returns when the broker has all of them, also if it was away meanwhile."""
        sent = {self._client.publish(topic, payload, qos, retain).mid for topic, payload in messages}
        wait_until(lambda: sent <= self._taken, 120)
        self._taken -= sent

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
