"""Server-sent events on a real connection."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pyarrow as pa
import pytest

from penstock.server.routes import events
from penstock.views.results import Event
from tests.server.fake import FakeDatabase, FakeSubscription
from tests.server.live import Live, serving


@pytest.fixture(scope="module")
def shared() -> Iterator[Live]:
    with serving(FakeDatabase()) as live:
        yield live


@pytest.fixture
def live(shared: Live, database: FakeDatabase) -> Live:
    """One server for all tests, each with a database of its own."""
    shared.app.state.context = _with_database(shared, database)
    return shared


def _with_database(live: Live, database: FakeDatabase) -> Any:
    from dataclasses import replace

    return replace(live.app.state.context, database=database)


@contextmanager
def reading(live: Live, query: str = "", **headers: str) -> Iterator[Iterator[dict[str, str]]]:
    url = f"{live.url}/v1/queries/gas_alarm/events{query}"
    with httpx.stream("GET", url, headers=headers, timeout=60, trust_env=False) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield frames(response.iter_lines())


def frames(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    frame: dict[str, str] = {}
    for line in lines:
        if line:
            key, _, value = line.partition(": ")
            frame[key] = value
        elif frame:
            if "event" in frame:
                yield frame
            frame = {}


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def test_an_event_carries_its_cycle_and_its_rows(live: Live, database: FakeDatabase) -> None:
    database.commit("gas_alarm", 3)
    with reading(live) as found:
        frame = next(found)
        assert (frame["event"], frame["id"]) == ("rows", "3")
        assert json.loads(frame["data"]) == {
            "cycle": 3,
            "now": "2023-11-14T22:13:20.000003Z",
            "final_to": None,
            "behind": None,
            "columns": [{"name": "location", "type": "TEXT"}, {"name": "ppm", "type": "DOUBLE"}],
            "rows": [{"location": "north gate", "ppm": 37.5}, {"location": "pier", "ppm": 41.0}],
        }


def test_commits_reach_a_waiting_reader(live: Live, database: FakeDatabase) -> None:
    database.commit("gas_alarm", 1)
    with reading(live) as found:
        assert next(found)["id"] == "1"
        for cycle in (2, 3, 4):
            database.commit("gas_alarm", cycle, pa.table({"text": ["line\nbreak"]}))
            frame = next(found)
            assert frame["id"] == str(cycle)
            assert json.loads(frame["data"])["rows"] == [{"text": "line\nbreak"}]


@pytest.mark.parametrize(
    ("query", "headers", "first"),
    [
        ("", {}, "1"),
        ("?from_cycle=2", {}, "2"),
        ("", {"Last-Event-ID": "2"}, "3"),
        ("?from_cycle=1", {"Last-Event-ID": "3"}, "4"),
    ],
)
def test_a_reader_resumes_where_it_was(
    live: Live, database: FakeDatabase, query: str, headers: dict[str, str], first: str
) -> None:
    for cycle in range(1, 6):
        database.commit("gas_alarm", cycle)
    with reading(live, query, **headers) as found:
        assert next(found)["id"] == first


def test_a_cycle_that_is_gone_is_refused_before_the_stream_starts(live: Live, database: FakeDatabase) -> None:
    database.oldest_cycle = 50
    url = f"{live.url}/v1/queries/gas_alarm/events?from_cycle=3"
    response = httpx.get(url, trust_env=False, timeout=60)
    assert response.status_code == 410
    assert response.json()["error"]["condition"] == "cycle_gone"
    again = httpx.get(url, headers={"Last-Event-ID": "x"}, trust_env=False, timeout=60)
    assert again.status_code == 400


def test_silence_is_broken_by_pings_that_carry_the_cycle(
    live: Live, database: FakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PING_S", 0.05)
    with reading(live) as found:
        assert next(found) == {"event": "ping", "data": "{}"}
        database.subscriptions[0].cycle = 12  # type: ignore[attr-defined]
        # Those without a cycle were on their way before.
        assert next(frame for frame in found if "id" in frame) == {"event": "ping", "data": "{}", "id": "12"}


class Surprising(FakeDatabase):
    """Its subscriptions fail in a way that no part of the server expects."""

    def subscribe(
        self, name: str, from_cycle: int | None = None, changes: bool = False, final: bool = False
    ) -> FakeSubscription:
        class Surprise(FakeSubscription):
            def next(self, timeout_s: float) -> Event | None:
                raise KeyError("a table of the inside")

        return Surprise(self, name, from_cycle or 0)


def test_a_surprise_ends_the_stream_with_an_error_that_says_nothing_of_the_inside(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    live.app.state.context = _with_database(live, Surprising())
    with reading(live) as found:
        frame = next(found)
        assert frame["event"] == "error" and next(found, None) is None
    told = json.loads(frame["data"])["error"]
    assert told["condition"] == "internal_error" and "inside" not in told["message"]
    assert "a table of the inside" in caplog.text


def test_a_dropped_query_ends_the_stream_with_an_error(live: Live, database: FakeDatabase) -> None:
    with reading(live) as found:
        del database.definitions["gas_alarm"]
        database.wake()
        frame = next(found)
        assert frame["event"] == "error"
        assert json.loads(frame["data"])["error"]["condition"] == "query_not_found"
        assert next(found, None) is None
    assert database.subscriptions[0].closed


def test_a_reader_that_leaves_releases_its_subscription(live: Live, database: FakeDatabase) -> None:
    with reading(live):
        eventually(lambda: len(database.subscriptions) == 1)
    eventually(lambda: database.subscriptions[0].closed)
    eventually(lambda: live.app.state.context.counters.subscribers == 0)


def test_two_hundred_readers_do_not_need_two_hundred_threads(live: Live, database: FakeDatabase) -> None:
    import threading

    request = b"GET /v1/queries/gas_alarm/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    address = (live.url.split("/")[2].split(":")[0], int(live.url.rsplit(":", 1)[1]))
    sockets = [socket.create_connection(address) for _ in range(200)]
    try:
        for connection in sockets:
            connection.sendall(request)
        eventually(lambda: live.app.state.context.counters.subscribers == 200)
        assert threading.active_count() < 60
        database.commit("gas_alarm", 0)
        for connection in sockets:
            connection.settimeout(60)
            seen = b""
            while b"event: rows" not in seen:
                seen += connection.recv(65536)
    finally:
        for connection in sockets:
            connection.close()
    eventually(lambda: all(subscription.closed for subscription in database.subscriptions))


def test_a_server_that_stops_ends_its_streams_at_once(database: FakeDatabase) -> None:
    # Were it not ended, it would be cut off after ten minutes, which nobody here waits for.
    with serving(database, grace_s=600) as other:
        with reading(other) as found:
            other._loop.call_soon_threadsafe(other._server.ask_to_stop)
            assert next(found, None) is None
    assert database.subscriptions[0].closed


def test_a_body_of_100_mb_is_refused_and_the_connection_stays_usable(live: Live, database: FakeDatabase) -> None:
    """Like clients that send all before they read: the answer must be there then, and not a reset."""
    import http.client

    connection = http.client.HTTPConnection(live.url.split("/")[2], timeout=60)
    for _ in range(2):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/tables/sensors/readings", body=bytes(100 << 20), headers=headers)
        response = connection.getresponse()
        assert response.status == 413
        assert json.loads(response.read())["error"]["condition"] == "body_too_large"
    connection.close()
    assert database.pushes == []
