"""How much of a body the server reads: little before it knows the role, and then as much as the route allows."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from penstock.server.http.body_limits import ByteBudget
from penstock.settings import Settings
from tests.server.fake import FakeDatabase
from tests.server.live import Live, serving

TOKEN = "t" * 32
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
PUSH = "/v1/tables/sensors/readings"
SMALL = 8 << 10
BUDGET = 256 << 10
ROWS = json.dumps([{"sensor_id": 1, "ppm": 1.5}]).encode()
PATIENCE_S = 60.0


@pytest.fixture
def live() -> Iterator[Live]:
    """A server whose budget is soon used up."""
    settings = Settings(token=TOKEN, body_max_bytes=BUDGET // 2, queue_max_bytes=BUDGET)
    with serving(FakeDatabase(), settings) as found:
        yield found


class Raw:
    """A connection whose bytes a test chooses."""

    def __init__(self, live: Live, head: str, *headers: str) -> None:
        parts = urlsplit(live.url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE_S)
        lines = [f"{head} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: application/json", *headers]
        self.socket.sendall("\r\n".join((*lines, "", "")).encode())

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, str]:
        """The status and the condition."""
        data = b""
        while b"\r\n\r\n" not in data or not data.endswith(b"}"):
            more = self.socket.recv(65536)
            if not more:
                break
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)["error"]["condition"] if body.endswith(b"}") else ""

    def is_closed(self) -> bool:
        """Waits for the server to close."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def used(live: Live) -> int:
    found: int = live.app.state.context.budget.used
    return found


@pytest.mark.parametrize("size", [SMALL + 1, 100_000])
def test_a_sign_in_has_8_kb_at_most(live: Live, size: int) -> None:
    body = json.dumps({"user": "ada", "password": "x" * (size - 31)}).encode()
    assert len(body) >= size
    for content in (body, iter([body[:5000], body[5000:]])):
        answer = httpx.post(
            f"{live.url}/v1/session", content=content, headers={"Content-Type": "application/json"}, timeout=60
        )
        assert (answer.status_code, answer.json()["error"]["condition"]) == (413, "body_too_large")


def test_without_a_role_a_body_is_not_read_at_all(live: Live) -> None:
    for path in (PUSH, "/v1/sql", "/console/_nicegui_ws/socket.io/?EIO=4&transport=polling"):
        with Raw(live, f"POST {path}", "Content-Length: 1000000000") as raw:
            assert raw.answer() == (401, "unauthorized")


def test_a_slow_sign_in_is_cut_at_its_deadline(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.server.http.body.UNKNOWN_ROLE_S", 0.3)
    monkeypatch.setattr("penstock.server.http.connections.UNKNOWN_ROLE_S", 0.3)
    with Raw(live, "POST /v1/session", "Content-Length: 1000") as raw:
        raw.send(b"{")
        assert raw.answer() == (400, "invalid_body")
        assert raw.is_closed()


def test_a_body_that_trickles_in_after_its_refusal_is_cut(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.server.http.connections.UNKNOWN_ROLE_S", 0.3)
    with Raw(live, f"POST {PUSH}", "Content-Length: 1000000") as raw:
        assert raw.answer() == (401, "unauthorized")
        assert raw.is_closed()


def test_a_request_that_never_begins_is_cut(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.server.http.connections.UNKNOWN_ROLE_S", 0.3)
    parts = urlsplit(live.url)
    for begun in (b"", b"GET /v1/health HT"):
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE_S) as raw:
            raw.sendall(begun)
            assert raw.recv(1000) == b"" or raw.recv(1000) == b""


def test_a_head_has_an_end(live: Live) -> None:
    parts = urlsplit(live.url)
    for endless in (b"GET /" + b"a" * 2_000_000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 400_000):
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE_S) as raw:
            with pytest.raises((ConnectionError, StopIteration)):
                raw.sendall(endless)
                while raw.recv(65536):
                    pass
                raise StopIteration


def test_open_sign_ins_hold_no_budget(live: Live) -> None:
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(Raw(live, "POST /v1/session", f"Content-Length: {SMALL}")).send(b" " * 4000)
        assert used(live) == 0
        answer = httpx.post(
            f"{live.url}{PUSH}", content=ROWS, headers={**WITH_TOKEN, "Content-Type": "application/json"}
        )
        assert answer.status_code == 200


def test_the_budget_is_taken_as_bytes_come(live: Live) -> None:
    length = f"Content-Length: {BUDGET // 2}"
    with ExitStack() as stack:
        open_pushes = [
            stack.enter_context(Raw(live, f"POST {PUSH}", f"Authorization: Bearer {TOKEN}", length)) for _ in range(20)
        ]
        for raw in open_pushes:
            raw.send(b" " * 1000)
        eventually(lambda: used(live) == 20_000)
        answer = httpx.post(
            f"{live.url}{PUSH}", content=ROWS, headers={**WITH_TOKEN, "Content-Type": "application/json"}
        )
        assert answer.status_code == 200
    eventually(lambda: used(live) == 0)


def test_bodies_that_fill_the_budget_together_end_one_after_another(live: Live) -> None:
    body = ROWS + b" " * (BUDGET // 2 - len(ROWS))
    with ExitStack() as stack:
        head = (f"POST {PUSH}", f"Authorization: Bearer {TOKEN}", f"Content-Length: {len(body)}")
        open_pushes = [stack.enter_context(Raw(live, *head)) for _ in range(6)]
        for part in (body[: len(body) * 2 // 3], body[len(body) * 2 // 3 :]):
            for raw in open_pushes:
                raw.send(part)
            time.sleep(0.05)
        for raw in open_pushes:
            assert raw.socket.recv(1000).startswith(b"HTTP/1.1 200")
    eventually(lambda: used(live) == 0)


def test_a_statement_has_4_mb_at_most() -> None:
    with serving(FakeDatabase()) as live:
        for size, status in ((4 << 20, 413), ((4 << 20) - 1000, 200)):
            answer = httpx.post(f"{live.url}/v1/sql", json={"sql": "SELECT 1" + " " * size}, timeout=60)
            assert answer.status_code == status
        assert answer.status_code == 200
    with serving(FakeDatabase(), Settings(body_max_bytes=10_000)) as live:
        answer = httpx.post(f"{live.url}/v1/sql", json={"sql": "SELECT 1" + " " * 10_000}, timeout=60)
        assert answer.status_code == 413


class PeakBudget(ByteBudget):
    """A budget that knows the most that was used of it."""

    peak = 0

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "used":
            self.peak = max(self.peak, value)


def test_frames_are_counted_while_they_come(live: Live) -> None:
    size, budget = BUDGET // 2, PeakBudget(BUDGET)
    live.app.state.context = replace(live.app.state.context, budget=budget)
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(
                connect(live.url.replace("http", "ws") + PUSH, additional_headers=WITH_TOKEN, compression=None)
            )
            for _ in range(6)
        ]
        head = b"\x82\xff" + size.to_bytes(8, "big") + b"\0\0\0\0"
        for found in sockets:
            found.socket.sendall(head + b" " * (size - 1000))
        # Two of the six fit, and a third one because the oldest is always let in.
        eventually(lambda: used(live) >= BUDGET - size)
        for found in sockets:
            found.socket.sendall(b" " * 1000)
        for found in sockets:
            assert "error" in json.loads(found.recv(timeout=PATIENCE_S))
    assert budget.peak <= BUDGET + size
    eventually(lambda: used(live) == 0)


def test_a_message_of_many_frames_is_one_message(live: Live) -> None:
    with connect(live.url.replace("http", "ws") + PUSH, additional_headers=WITH_TOKEN) as socket_:
        for pieces in ([b"", ROWS[:5], b"", ROWS[5:], b""], [b""] * 5000 + [ROWS], [bytes([byte]) for byte in ROWS]):
            socket_.send([piece.decode() for piece in pieces])
            assert json.loads(socket_.recv(timeout=PATIENCE_S))["accepted"] == 1
    eventually(lambda: used(live) == 0)


def test_what_a_subscriber_says_is_small(live: Live) -> None:
    address = live.url.replace("http", "ws") + "/v1/queries/gas_alarm/ws"
    with connect(address, additional_headers=WITH_TOKEN) as socket_, pytest.raises(ConnectionClosed) as caught:
        socket_.send("x" * (SMALL + 1))
        socket_.recv(timeout=PATIENCE_S)
    assert caught.value.rcvd is None or caught.value.rcvd.code == 1009
