"""Readings over a WebSocket on a real connection, and Parquet files over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from penstock.server.http import decode
from penstock.server.http.access import RateLimits
from penstock.server.routes.system import status_samples
from penstock.settings import Settings
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase
from tests.server.live import Live, serving

PATH = "/v1/tables/sensors/readings"
ROWS = [{"sensor_id": 1, "ppm": 37.5}, {"sensor_id": 2, "ppm": None}]


@pytest.fixture(scope="module")
def shared() -> Iterator[Live]:
    with serving(FakeDatabase(), Settings(body_max_bytes=100_000)) as live:
        yield live


@pytest.fixture
def live(shared: Live, database: FakeDatabase) -> Live:
    shared.app.state.context = replace(shared.app.state.context, database=database)
    return shared


@contextmanager
def sending(live: Live, path: str = PATH, **more: Any) -> Iterator[ClientConnection]:
    with connect(live.url.replace("http", "ws", 1) + path, proxy=None, open_timeout=60, **more) as socket:
        yield socket


def told(socket: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(socket.recv(timeout=60))
    return found


def arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def test_each_frame_is_stored_and_answered_in_its_turn(live: Live, database: FakeDatabase) -> None:
    with sending(live) as socket:
        frames = [
            json.dumps(ROWS),
            json.dumps(ROWS[0]),
            arrow(pa.Table.from_pylist(ROWS)),
            parquet(pa.Table.from_pylist(ROWS)),
        ]
        for frame in frames:
            socket.send(frame)
        assert [told(socket) for _ in frames] == [
            {"frame": 0, "accepted": 2, "refused": [], "position": 2},
            {"frame": 1, "accepted": 1, "refused": [], "position": 3},
            {"frame": 2, "accepted": 2, "refused": [], "position": 5},
            {"frame": 3, "accepted": 2, "refused": [], "position": 7},
        ]
    assert database.readings == [*ROWS, ROWS[0], *ROWS, *ROWS]


def test_a_frame_with_an_id_may_be_repeated(live: Live, database: FakeDatabase) -> None:
    frame = json.dumps({"id": "once", "readings": ROWS})
    with sending(live) as socket:
        for _ in range(2):
            socket.send(frame)
        answers = [told(socket) for _ in range(2)]
    assert [(a["id"], a["accepted"], a["position"]) for a in answers] == [("once", 2, 2)] * 2
    assert len(database.readings) == 2


def test_a_bad_frame_is_told_and_the_next_one_may_be_better(live: Live) -> None:
    bad = ["nonsense", "[1]", "", b"nonsense", b"PAR1nonsense", '{"id": 7, "readings": []}', '{"readings": 5}']
    with sending(live) as socket:
        for frame in bad:
            socket.send(frame)
            assert told(socket)["error"]["condition"] in ("invalid_body", "invalid_parameter")
        socket.send(json.dumps([{"sensor_id": 1}, {"sensor_id": -1}]))
        answer = told(socket)
    assert (answer["frame"], answer["accepted"], answer["refused"][0]["index"]) == (len(bad), 1, 1)
    counts = live.app.state.context.database.ways_in["websocket"].as_dict()
    assert counts["refused"]["sensor_not_found"] == 1
    assert counts["refused"]["invalid_body"] >= 5
    assert (counts["messages"], counts["accepted"]) == (1, 1)
    sample = (
        "penstock_inputs_refused_total",
        (("input", "websocket"), ("condition", "sensor_not_found")),
        1,
    )
    assert sample in list(status_samples({"inputs": {"websocket": counts}}))


class Turns(RateLimits):
    """`take` says how long a client has to wait."""

    def __init__(self, take: Callable[[str], float]) -> None:
        super().__init__(per_s=0.0, burst=0.0)
        self._take = take

    def take(self, client: str) -> float:
        return self._take(client)


def test_frames_count_as_requests_and_wait_for_their_turn(database: FakeDatabase) -> None:
    waits = iter([0.0, 0.0, 0.01, 0.01, 0.0])  # to come in; the first frame at once, the second at the third attempt
    clients: list[str] = []

    def take(client: str) -> float:
        clients.append(client)
        return next(waits)

    with serving(database, rates=Turns(take)) as live, sending(live) as socket:
        for _ in range(2):
            socket.send(json.dumps(ROWS))
            assert told(socket)["accepted"] == len(ROWS)
    assert next(waits, None) is None and len(set(clients)) == 1


def test_a_frame_that_waits_for_its_turn_is_given_up_when_the_server_closes(database: FakeDatabase) -> None:
    waits = iter([0.0])  # to come in; nobody's turn comes after that
    asked = Event()

    def take(client: str) -> float:
        found = next(waits, 3600.0)
        if found:
            asked.set()
        return found

    with serving(database, rates=Turns(take)) as live:
        context = live.app.state.context
        with sending(live) as socket:
            socket.send(json.dumps(ROWS))
            assert asked.wait(60)
            live._loop.call_soon_threadsafe(context.lifecycle.closing.set)
            with pytest.raises(ConnectionClosed) as caught:
                told(socket)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 1001
    assert database.readings == []


def test_a_table_that_is_not_there_is_told_frame_by_frame(live: Live) -> None:
    with sending(live, "/v1/tables/none/readings") as socket:
        socket.send(json.dumps(ROWS))
        assert told(socket)["error"]["condition"] == "table_not_found"


def test_a_frame_above_the_limit_ends_the_connection(live: Live) -> None:
    with sending(live) as socket, pytest.raises(ConnectionClosed) as caught:
        socket.send("x" * 200_000)
        told(socket)
    assert caught.value.rcvd is None or caught.value.rcvd.code == 1009


def test_who_may_only_read_may_not_send() -> None:
    database = FakeDatabase()
    with serving(database, Settings(token="s3cret-s3cret-s3cret-s3cret-s3cret")) as live:
        with pytest.raises(InvalidStatus), sending(live):
            pass
        with sending(live, additional_headers={"Authorization": "Token s3cret-s3cret-s3cret-s3cret-s3cret"}) as socket:
            socket.send(json.dumps(ROWS))
            assert told(socket)["accepted"] == 2
        reader = database.users.create_token("reader", "read")
        with pytest.raises((InvalidStatus, ConnectionClosed)):
            with sending(live, additional_headers={"Authorization": f"Bearer {reader}"}) as socket:
                told(socket)
        assert len(database.readings) == 2


def test_a_connection_ends_with_the_token_that_opened_it() -> None:
    database = FakeDatabase()
    with serving(database, Settings(token="s3cret-s3cret-s3cret-s3cret-s3cret")) as live:
        token = database.users.create_token("gate", "write")
        with sending(live, additional_headers={"Authorization": f"Bearer {token}"}) as socket:
            socket.send(json.dumps(ROWS))
            assert told(socket)["accepted"] == 2
            database.users.drop_token("gate")
            socket.send(json.dumps(ROWS))
            assert told(socket)["error"]["condition"] == "unauthorized"
            with pytest.raises(ConnectionClosed):
                told(socket)
    assert len(database.readings) == 2


def test_a_parquet_file_is_a_body_like_others(http: Http, database: FakeDatabase) -> None:
    many = pa.table({"sensor_id": list(range(1, 20_001)), "ppm": [1.5] * 20_000})
    for number, media_type in enumerate(("application/vnd.apache.parquet", "application/x-parquet")):
        body = parquet(many, row_group_size=3000, compression="zstd")
        answer = http.post(PATH, content=body, headers={"Content-Type": media_type}).json()
        assert (answer["accepted"], answer["position"]) == (20_000, 20_000 * (number + 1))
    assert database.readings[0] == {"sensor_id": 1, "ppm": 1.5}
    empty = parquet(many.slice(0, 0))
    assert http.post(PATH, content=empty, headers={"Content-Type": media_type}).json()["accepted"] == 0


@pytest.mark.parametrize("cut", [slice(0), slice(4), slice(100), slice(-4), slice(4, None)])
def test_half_a_parquet_file_is_refused_as_a_whole(http: Http, database: FakeDatabase, cut: slice) -> None:
    body = parquet(pa.Table.from_pylist(ROWS))[cut]
    answer = http.post(PATH, content=body, headers={"Content-Type": "application/vnd.apache.parquet"})
    assert (answer.status_code, answer.json()["error"]["condition"]) == (400, "invalid_body")
    assert database.readings == []


def test_a_small_file_with_too_much_in_it_is_refused(
    http: Http, database: FakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "UNPACKED_MAX_BYTES", 1 << 20)
    body = parquet(pa.table({"sensor_id": [1] * 500_000, "ppm": [1.5] * 500_000}))
    assert len(body) < 100_000
    answer = http.post(PATH, content=body, headers={"Content-Type": "application/vnd.apache.parquet"})
    assert (answer.status_code, answer.json()["error"]["condition"]) == (413, "body_too_large")
    assert database.readings == []
