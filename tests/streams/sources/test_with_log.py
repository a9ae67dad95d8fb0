"""Manager, ingest, log and catalog together: readings of opened sensors on disk, across restarts and kills."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import StreamColumn, StreamType, Table, TableOptions
from penstock.clock import SECOND, WallClock
from penstock.sensors.address_rules import AddressRules, SensorFiles
from penstock.settings import Settings
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from penstock.streams.log.stream_log import StreamLog
from penstock.streams.sources.manager import StreamManager
from penstock.types import DOUBLE, INT, Field
from tests.sensors.world import FAST, PATIENCE_S, wait_until

VALUE = (Field("value", DOUBLE),)
NAB = Path(__file__).parents[2] / "data" / "nab"
NEAR = AddressRules(SensorFiles(NAB))


class Server:
    """Everything below the pipeline, on one data folder."""

    def __init__(self, folder: Path) -> None:
        settings, clock = Settings(data=str(folder)), WallClock()
        self.log = StreamLog(folder, settings, clock)
        self.catalog = Catalog(folder, self.log.still, clock)
        self.ingest = Ingest(self.log, lambda: self.catalog.state, clock, settings)
        self._killed = False
        self.manager = StreamManager(
            lambda: self.catalog.state, self.ingest, self._observe, clock, limits=FAST, rules=NEAR
        )

    def _observe(self, *arguments: Any) -> None:
        if not self._killed:
            self.catalog.observe(*arguments)

    def create(self, name: str, connector: str, options: dict[str, str], rows: list[tuple[Any, ...]]) -> Table:
        kind = StreamType(f"{name}_kind", VALUE, connector, options)
        self.catalog.create_stream_type(kind)
        stream = StreamColumn("reading", VALUE, kind.name, connector, options)
        table = self.catalog.create_table(
            Table(0, name, (Field("id", INT),), ("id",), stream, TableOptions(time="valid", max_ahead_us=10**18))
        )
        self.catalog.insert_rows(name, rows)
        return table

    def logged(self, table: Table) -> list[tuple[int, int, float]]:
        """(vid, time, value) of every row on disk."""
        segments = list_segments(self.log.folder, table.id)
        found: list[tuple[int, int, float]] = []
        for piece in slices(segments, 0, self.log.head(table.id)):
            rows = read_slice(piece, ["_vid", "ts", "value"])
            times = [int(t.timestamp()) * SECOND + t.microsecond for t in rows.column("ts").to_pylist()]
            found += zip(rows.column("_vid").to_pylist(), times, rows.column("value").to_pylist(), strict=True)
        return found

    def close(self) -> None:
        self.manager.close(PATIENCE_S)
        self.log.close()
        self.catalog.close()

    def kill(self) -> None:
        """As far as the journal can tell: the log and the catalog stop before the manager closes anything."""
        self.log.close()
        self.catalog.close()
        self._killed = True  # the journal's file is closed
        self.manager.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    running.close()


def test_what_sensors_say_is_in_the_log_and_nothing_else(server: Server) -> None:
    table = server.create("s", "simulator", {"rate": "20"}, [(i, f"s{i}") for i in range(20)])
    server.manager.demand("q", table.id, {3, 7})
    wait_until(lambda: server.log.head(table.id) > 20)
    server.manager.release("q")
    wait_until(lambda: all(s.state == "closed" for s in server.manager.states(table.id)))
    assert server.manager._forwarder.drain(PATIENCE_S)
    rows = server.logged(table)
    assert {vid for vid, _, _ in rows} == {3, 7}
    assert len(rows) == sum(s.readings for s in server.manager.states(table.id))
    assert set(server.catalog.state.observations(table.id)) == {3, 7}


def test_a_recording_arrives_whole_and_a_restart_does_not_bring_it_again(tmp_path: Path) -> None:
    server = Server(tmp_path)
    rows = [(1, str(NAB / "speed_t4013.csv")), (2, str(NAB / "occupancy_t4013.csv"))]
    table = server.create("r", "replay", {"speed": "max"}, rows)
    server.manager.demand("q", table.id, {0, 1})
    wait_until(lambda: {s.state for s in server.manager.states(table.id)} == {"ended"})
    assert server.manager._forwarder.drain(PATIENCE_S)
    before = server.logged(table)
    assert len(before) == 2495 + 2500
    server.close()
    server = Server(tmp_path)
    server.manager.demand("q", table.id, {0, 1})
    wait_until(lambda: {s.state for s in server.manager.states(table.id)} == {"ended"})
    assert server.manager._forwarder.drain(PATIENCE_S) and server.logged(table) == before
    assert not server.ingest.counters("r")["refused"]
    server.close()


def test_a_sensor_that_ended_stays_ended_across_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path)
    rows = [(1, str(NAB / "speed_t4013.csv")), (2, str(NAB / "occupancy_t4013.csv"))]
    table = server.create("r", "replay", {"speed": "max"}, rows)
    server.manager.demand("q", table.id, {0})
    wait_until(lambda: server.catalog.state.ended(table.id) == {0})
    server.close()
    server = Server(tmp_path)
    assert [(s.sid, s.state) for s in server.manager.states(table.id)] == [(0, "ended")]
    journal = server.catalog.state.position
    server.manager.demand("q", table.id, {0})
    assert server.manager._poller.drain(PATIENCE_S) and server.manager._forwarder.drain(PATIENCE_S)
    assert server.catalog.state.position == journal, "nothing was opened"
    server.catalog.update_rows("r", {0: (1, rows[1][1])})
    server.manager.refresh()
    wait_until(lambda: server.catalog.state.position > journal + 2 and server.catalog.state.ended(table.id) == {0})
    server.close()


def test_after_a_kill_nobody_claims_to_have_listened_in_between(tmp_path: Path) -> None:
    server = Server(tmp_path)
    table = server.create("s", "simulator", {"rate": "20"}, [(i, f"s{i}") for i in range(3)])
    server.manager.demand("q", table.id, {0, 1})
    wait_until(lambda: set(server.catalog.state.observations(table.id)) == {0, 1})
    server.kill()
    restarted_us = int(time.time() * SECOND)
    server = Server(tmp_path)
    server.manager.demand("q", table.id, {1})
    wait_until(lambda: server.catalog.state.observations(table.id)[1][-1][0] >= restarted_us)
    spans = server.catalog.state.observations(table.id)
    assert spans[0][-1][1] is not None and len(spans[1]) == 2
    assert spans[1][0][1] is not None and spans[1][1][1] is None
    server.close()
