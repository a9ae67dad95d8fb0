"""Results over a WebSocket, on a real connection."""

from __future__ import annotations

import json
import socket as sockets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from penstock.server.routes import events
from penstock.settings import Settings
from tests.server.fake import FakeDatabase
from tests.server.live import Live, serving


@pytest.fixture(scope="module")
def shared() -> Iterator[Live]:
    with serving(FakeDatabase()) as live:
        yield live


@pytest.fixture
def live(shared: Live, database: FakeDatabase) -> Live:
    shared.app.state.context = replace(shared.app.state.context, database=database)
    return shared


@contextmanager
def following(live: Live, query: str = "", name: str = "gas_alarm", **more: Any) -> Iterator[ClientConnection]:
    url = live.url.replace("http", "ws", 1) + f"/v1/queries/{name}/ws{query}"
    with connect(url, proxy=None, open_timeout=60, **more) as socket:
        yield socket


def message(socket: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(socket.recv(timeout=60))
    return found


def eventually(check: Callable[[], bool]) -> None:
    from tests.sinks.world import eventually as wait

    wait(check)


def test_a_message_is_a_cycle_with_its_rows(live: Live, database: FakeDatabase) -> None:
    database.commit("gas_alarm", 3)
    with following(live) as socket:
        first = message(socket)
        assert (first["event"], first["cycle"], first["now"]) == ("rows", 3, "2023-11-14T22:13:20.000003Z")
        assert first["rows"] == [{"location": "north gate", "ppm": 37.5}, {"location": "pier", "ppm": 41.0}]
        assert first["columns"][1] == {"name": "ppm", "type": "DOUBLE"}
        socket.send("anything")  # is read and ignored
        database.commit("gas_alarm", 4)
        assert message(socket)["cycle"] == 4


def test_a_socket_lives_longer_than_the_head_of_a_request(
    live: Live, database: FakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.http.connections.UNKNOWN_ROLE_S", 0.2)
    database.commit("gas_alarm", 3)
    with following(live) as socket:
        assert message(socket)["cycle"] == 3
        host, _, port = live.url.removeprefix("http://").partition(":")
        with sockets.create_connection((host, int(port)), timeout=60) as silent:
            assert silent.recv(1) == b""  # its deadline, which began after the socket's, has passed
        database.commit("gas_alarm", 4)
        assert message(socket)["cycle"] == 4


def test_whoever_comes_back_goes_on_with_the_cycle_after_the_last_it_saw(live: Live, database: FakeDatabase) -> None:
    for cycle in (3, 4, 5):
        database.commit("gas_alarm", cycle)
    with following(live) as socket:
        seen = message(socket)["cycle"]
    with following(live, f"?from_cycle={seen + 1}") as socket:
        assert [message(socket)["cycle"] for _ in range(5 - seen)] == list(range(seen + 1, 6))


def test_silence_is_broken_by_pings(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PING_S", 0.05)
    with following(live) as socket:
        assert message(socket)["event"] == "ping"


def test_why_there_is_nothing_to_follow_comes_as_a_message(live: Live, database: FakeDatabase) -> None:
    database.oldest_cycle = 100
    for query, name, condition in (("", "gone", "query_not_found"), ("?from_cycle=7", "gas_alarm", "cycle_gone")):
        with following(live, query, name) as socket:
            told = message(socket)
            assert (told["event"], told["error"]["condition"]) == ("error", condition)
            with pytest.raises(ConnectionClosed) as caught:
                socket.recv(timeout=60)
            assert caught.value.rcvd is not None and (caught.value.rcvd.code, caught.value.rcvd.reason) == (
                1008,
                condition,
            )


def test_a_dropped_query_ends_with_a_message(live: Live, database: FakeDatabase) -> None:
    with following(live) as socket:
        eventually(lambda: len(database.subscriptions) == 1)
        database.execute('DROP QUERY "gas_alarm"')
        assert message(socket)["error"]["condition"] == "query_not_found"


def test_a_subscriber_that_leaves_is_let_go(live: Live, database: FakeDatabase) -> None:
    with following(live):
        eventually(lambda: live.app.state.context.counters.subscribers == 1)
    eventually(lambda: database.subscriptions[0].closed)
    eventually(lambda: live.app.state.context.counters.subscribers == 0)


def test_without_a_token_nobody_gets_in_and_the_server_ends_gently() -> None:
    with serving(FakeDatabase(), Settings(token="hush-hush-hush-hush-hush-hush-hush")) as live:
        with pytest.raises(InvalidStatus) as caught, following(live):
            pass
        assert caught.value.response.status_code == 403
        with following(
            live, additional_headers={"Authorization": "Bearer hush-hush-hush-hush-hush-hush-hush"}
        ) as socket:
            eventually(lambda: live.app.state.context.counters.subscribers == 1)
            live.stop()
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=60)
        live.start()
