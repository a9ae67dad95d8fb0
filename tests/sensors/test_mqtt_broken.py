"""Connections that break between reading a message and storing it: a broker that still has it sends it again, one that was killed cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.model import Table
from penstock.sensors.registry import find_connector, parse_options
from penstock.streams.sources.mqtt_source import MqttSource
from tests.sensors.mqtt_world import Plant, Publisher, wait_until
from tests.support.mosquitto import Mosquitto, needs_mosquitto

pytestmark = needs_mosquitto


class Store:
    """A `TableInbox` that stores nothing before it is told to."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._wakes: list[Callable[[], None]] = []
        self.is_open = False
        self.taken: list[int] = []
        """Numbers that were handed over, stored or not."""

    def open(self) -> None:
        self.is_open = True
        for wake in self._wakes:
            wake()

    def table(self) -> Table:
        return self._table

    def addresses(self) -> tuple[int, Mapping[str, Mapping[str, Any]]]:
        return 0, {}

    def push(self, rows: Sequence[Mapping[str, Any]], wake: Callable[[], None]) -> Store:
        self.taken += [row["seq"] for row in rows]
        self._wakes.append(wake)
        return self

    def advance(self) -> bool:
        return self.is_open

    def came(self, messages: int, size: int) -> None:
        pass

    def refuse(self, condition: str, message: str, count: int = 1) -> None:
        raise AssertionError(message)

    def ignore(self, names: Iterable[str]) -> None:
        raise AssertionError(names)


@pytest.fixture
def table(tmp_path: Path, broker: Mosquitto) -> Table:
    plant = Plant(tmp_path / "data", broker)
    try:
        plant.create("sensor INT PRIMARY KEY, reading STREAM) WITH (discover = true)", options="topic 'plant/{sensor}'")
        return plant.db.catalog_table("probes")
    finally:
        plant.db.stop()


@pytest.fixture
def opened(table: Table) -> Iterator[Callable[[Store], MqttSource]]:
    """Sources of one identity, which are stopped at the end."""
    made: list[MqttSource] = []

    def start(store: Store) -> MqttSource:
        assert table.stream is not None
        connector = find_connector("mqtt")
        made.append(MqttSource(store, parse_options(connector, table.stream.options), "one-identity"))
        made[-1].service.start()
        wait_until(lambda: made[-1].facts().state == "connected")
        return made[-1]

    yield start
    for source in made:
        source.stop()
        source.service.join(30)


def send(broker: Mosquitto, numbers: Iterable[int]) -> None:
    publisher = Publisher(broker)
    publisher.send((f"plant/{n}", f'{{"ppm": 1, "seq": {n}}}') for n in numbers)
    publisher.close()


def read_ten(broker: Mosquitto, source: MqttSource, store: Store) -> None:
    """Ten messages that the source has read; the first of them is on its way, the others wait behind it."""
    send(broker, [0])
    wait_until(lambda: store.taken == [0])
    send(broker, range(1, 10))
    wait_until(lambda: source.facts().in_flight == 10)


@pytest.mark.parametrize("forgets", [True, False])
def test_what_was_read_is_stored_once_whether_the_broker_forgets_it_or_sends_it_again(
    table: Table, broker: Mosquitto, opened: Callable[[Store], MqttSource], forgets: bool
) -> None:
    store = Store(table)
    source = opened(store)
    read_ten(broker, source, store)
    broker.kill() if forgets else broker.stop()
    wait_until(lambda: source.facts().state == "backing off")
    broker.start()
    wait_until(lambda: source.facts().connects == 2)
    store.open()
    send(broker, range(10, 13))
    wait_until(lambda: 12 in store.taken and source.facts().in_flight == 0)
    assert store.taken == list(range(13))


def test_what_is_not_stored_is_not_acknowledged(
    table: Table, broker: Mosquitto, opened: Callable[[Store], MqttSource]
) -> None:
    first, second = Store(table), Store(table)
    read_ten(broker, opened(first), first)
    second.open()
    # The broker gives the session to whoever comes last in its name, with all that was never acknowledged.
    opened(second)
    wait_until(lambda: len(second.taken) >= 10)
    assert second.taken[:10] == list(range(10))
    first.open()
