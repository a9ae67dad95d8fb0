"""The TCP client against a real server socket: whole lines, never blocking, and back after a break."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.clock import WallClock
from penstock.errors import PenstockError
from penstock.sensors.base import ReadResult, Sensor
from penstock.sensors.registry import create_sensor
from penstock.streams.sources.sensor_forwarder import ReadChunk, pack
from penstock.streams.sources.sensor_state import OpenedSensor
from tests.sensors.world import GAS, PATIENCE_S, World, table, wait_until


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


def address_of(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def connect(server: socket.socket, **options: str) -> tuple[Sensor, socket.socket]:
    sensor = create_sensor("tcp", address_of(server), GAS, options, WallClock())
    assert isinstance(sensor, Sensor)
    sensor.init()
    peer, _ = server.accept()
    return sensor, peer


def read_some(sensor: Sensor, timeout_s: float = PATIENCE_S) -> Any:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        reading = sensor.read()
        if reading.answer is not ReadResult.NO_VALUE or reading.bad:
            return reading
        time.sleep(0.001)
    raise AssertionError("nothing came")


def test_lines_of_csv_become_rows_with_their_own_times(server: socket.socket) -> None:
    sensor, peer = connect(server, time="first")
    with peer:
        peer.sendall(b'2026-01-01T00:00:00Z,1,"me,thane",3.5\n1767225601000000,2,,4\n2026')
        reading = read_some(sensor)
        assert reading.rows == [("1", "me,thane", "3.5"), ("2", None, "4")] and reading.texts
        assert list(reading.times_us) == [1767225600000000, 1767225601000000]
        peer.sendall(b"-01-01T00:00:02Z,3,x,5\r\n")
        assert read_some(sensor).rows == [("3", "x", "5")]
    sensor.close()


def test_lines_of_json_become_rows_whatever_the_order_of_members(server: socket.socket) -> None:
    sensor, peer = connect(server, time="ts")
    with peer:
        peer.sendall(b'{"ppm": 1.5, "gas_id": 7, "gas_name": null, "ts": 12}\n')
        reading = read_some(sensor)
        assert reading.rows == [(7, None, 1.5)] and not reading.texts and list(reading.times_us) == [12]
    sensor.close()


def test_a_line_that_nobody_understands_is_counted_and_the_next_one_read(server: socket.socket) -> None:
    sensor, peer = connect(server)
    with peer:
        peer.sendall(b"1,methane\nhello\n2,methane,3\n")
        reading = read_some(sensor)
        assert reading.rows == [("2", "methane", "3")]
        assert reading.bad == 2 and "1 values for 3 fields" in reading.problem
    sensor.close()


def test_texts_are_packed_as_values_of_the_fields_types(server: socket.socket) -> None:
    sensor, peer = connect(server)
    with peer:
        peer.sendall(b"1,methane,2.5\nx,methane,2\n3,,4\n")
        reading = read_some(sensor)
    sensor.close()
    source = OpenedSensor(table(fields=GAS), 9, "a")
    parcel = pack(source.table, [ReadChunk(source, reading, 5)])
    assert parcel is not None and parcel.sids.tolist() == [9, 9]
    assert [c.to_pylist() for c in parcel.columns] == [[1, 3], ["methane", None], [2.5, 4.0]]
    assert source.errors == 1 and "whole number" in str(source.last_error)


def test_a_poll_never_waits_for_a_peer_that_says_nothing(server: socket.socket) -> None:
    sensor, peer = connect(server)
    with peer:
        # Did it wait, the test would hang here: nobody ever sends.
        assert all(sensor.read().answer is ReadResult.NO_VALUE for _ in range(100))
    sensor.close()


def test_a_closed_connection_ends_the_sensor_where_the_option_says_so(server: socket.socket) -> None:
    sensor, peer = connect(server, at_close="end")
    peer.sendall(b"1,a,2\n3,b,4")
    peer.close()
    assert read_some(sensor).rows == [("1", "a", "2"), ("3", "b", "4")]
    assert read_some(sensor).answer is ReadResult.END
    sensor.close()


def test_the_manager_connects_again_after_a_break(server: socket.socket) -> None:
    lines = table(connector="tcp", fields=GAS)
    with World((lines, {4: address_of(server)})) as world:
        world.manager.demand("q", 1, {4})
        peer, _ = server.accept()
        peer.sendall(b"1,a,1.5\n")
        wait_until(lambda: world.of(4) == [(1, "a", 1.5)])
        peer.close()
        peer, _ = server.accept()
        peer.sendall(b"2,b,2.5\n")
        wait_until(lambda: world.of(4) == [(1, "a", 1.5), (2, "b", 2.5)])
        assert world.state(4).state == "open" and "closed the connection" in world.state(4).last_error
        assert world.opened() == [4] and world.closed() == []
        world.manager.release("q")
        wait_until(lambda: world.closed() == [4])
        assert peer.recv(1) == b""
        peer.close()


def test_nobody_listening_is_an_error_that_is_shown_and_tried_again(server: socket.socket) -> None:
    nobody = address_of(server)
    server.close()
    with World((table(connector="tcp", fields=GAS), {0: nobody})) as world:
        world.manager.demand("q", 1, {0})
        wait_until(lambda: world.manager.states(1)[0].errors >= 3)
        assert world.state(0).state in ("backing off", "opening", "open") and "refused" in world.state(0).last_error


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9", "localhost:http", "localhost:70000"])
def test_an_address_without_host_and_port_is_refused(address: str) -> None:
    sensor = create_sensor("tcp", address, GAS, {}, WallClock())
    assert isinstance(sensor, Sensor)
    with pytest.raises(PenstockError, match="is not an address"):
        sensor.init()
