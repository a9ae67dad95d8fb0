"""Bombs: small bodies that would become large ones. The server refuses them by name, stays small and goes on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from penstock.security.users import Users
from tests.security import bombs
from tests.server.test_run import free_port

ROOT = Path(__file__).parents[2]
GROWS_MAX_BYTES = 200 << 20
PATIENCE_S = 120.0
PUSH = "/v1/tables/probes/readings"


class Attacked:
    """A server process and what it takes of memory."""

    def __init__(self, folder: Path) -> None:
        users = Users(folder)
        users.create_user("root", "admin", "admin's secret")
        self.admin = {"Authorization": f"Bearer {users.create_token('t_admin', 'admin')}"}
        self.writer = {"Authorization": f"Bearer {users.create_token('t_write', 'write')}"}
        port = free_port()
        command = [sys.executable, "-m", "tests.security.serve_local", str(port), str(folder)]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, trust_env=False)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "ready at" in line:
                break
        os.set_blocking(self.process.stderr.fileno(), False)
        self.sql(
            "CREATE TABLE probes (id INT PRIMARY KEY, x STREAM (value DOUBLE)); INSERT INTO probes VALUES (1, NULL)"
        )
        self.is_fine()

    def sql(self, statements: str) -> None:
        answer = self.client.post("/v1/sql", json={"sql": statements}, headers=self.admin)
        assert answer.status_code == 200, answer.text

    def is_fine(self) -> None:
        """Readings are stored and questions are answered."""
        good = self.client.post(PUSH, json=[{"id": 1, "value": 1.5}], headers=self.writer)
        assert (good.status_code, good.json()["accepted"]) == (200, 1), good.text
        assert self.client.get("/v1/tables", headers=self.writer).status_code == 200

    def attack(self, path: str, body: bytes, **headers: str) -> tuple[httpx.Response, int]:
        """The answer, and by how much the process grew at its largest."""
        before = self.start_measuring()
        answer = self.client.post(path, content=body, headers={**self.writer, **headers})
        return answer, self.memory("VmHWM") - before

    def start_measuring(self) -> int:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the largest so far is forgotten
        return self.memory("VmRSS")

    def memory(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    found = Attacked(tmp_path_factory.mktemp("attacked") / "data")
    yield found
    found.close()


@pytest.mark.parametrize("name", bombs.PUSHES)
def test_a_bomb_is_refused_by_name_and_takes_little(attacked: Attacked, name: str) -> None:
    media_type, make, conditions = bombs.PUSHES[name]
    body = make()
    assert len(body) <= 64 << 20
    answer, grew = attacked.attack(PUSH, body, **{"Content-Type": media_type})
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["error"]["condition"] in conditions, answer.text
    assert grew < GROWS_MAX_BYTES, f"{grew >> 20} MB"
    attacked.is_fine()


@pytest.mark.parametrize("name", bombs.LINES)
def test_a_bomb_of_lines_is_refused_and_takes_little(attacked: Attacked, name: str) -> None:
    make, statuses = bombs.LINES[name]
    answer, grew = attacked.attack("/api/v2/write", make(), **{"Content-Encoding": "gzip"})
    assert answer.status_code in statuses, answer.text
    assert grew < GROWS_MAX_BYTES, f"{grew >> 20} MB"
    attacked.is_fine()


def test_a_bomb_in_a_frame_is_refused_and_takes_little(attacked: Attacked) -> None:
    before = attacked.start_measuring()
    address = str(attacked.client.base_url).replace("http", "ws").rstrip("/") + PUSH
    with connect(address, additional_headers=attacked.writer, proxy=None, open_timeout=PATIENCE_S) as socket:
        for frame in (bombs.arrow_columns("zstd"), b"[" + b"{}," * (5 << 20) + b"{}]"):
            socket.send(frame if frame[:1] != b"[" else frame.decode())
            answer = json.loads(socket.recv(timeout=PATIENCE_S))
            assert answer["error"]["condition"] == "body_too_large"
    assert attacked.memory("VmHWM") - before < GROWS_MAX_BYTES
    attacked.is_fine()


def test_a_nested_statement_is_refused(attacked: Attacked) -> None:
    depth = 1 << 20
    deep = b'{"sql": "SELECT 1", "params": ' + b"[" * depth + b"]" * depth + b"}"
    answer, grew = attacked.attack("/v1/sql", deep, **{"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["condition"]) == (400, "invalid_body")
    assert grew < GROWS_MAX_BYTES
    attacked.is_fine()


def test_a_flood_of_headers_takes_little(attacked: Attacked) -> None:
    before = attacked.start_measuring()
    with pytest.raises(httpx.HTTPError):
        answer = attacked.client.get("/v1/health", headers={"X-Flood": "x" * (50 << 20)})
        if answer.status_code == 400:
            raise httpx.ReadError("")
    assert attacked.memory("VmHWM") - before < GROWS_MAX_BYTES
    attacked.is_fine()


def test_many_bombs_at_a_time_take_little(attacked: Attacked) -> None:
    body = bombs.arrow_columns("zstd")
    before = attacked.start_measuring()

    def send(_: int) -> int:
        headers = {**attacked.writer, "Content-Type": bombs.ARROW}
        return attacked.client.post(PUSH, content=body, headers=headers).status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(send, range(64))) == {413}
    assert attacked.memory("VmHWM") - before < GROWS_MAX_BYTES
    attacked.is_fine()
