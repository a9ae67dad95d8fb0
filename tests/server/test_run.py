"""A server process from its first line to its last."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from penstock.errors import PenstockError
from penstock.server.app import run
from penstock.server.http.listener import bind
from penstock.settings import Settings

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Process:
    """`penstock serve` with the fake database; killed at the end of the test if it is still there."""

    def __init__(self, *more: str, gate: Path | None = None) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "tests.server.serve_fake", str(self.port), str(gate or "-"), *more]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.port}"

    def until(self, words: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if words in line:
                return line
        raise AssertionError(f"ended without saying {words!r}")

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", trust_env=False, timeout=PATIENCE_S)

    def is_listening(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except ConnectionRefusedError:
            return False
        return True


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def started() -> Iterator[list[Process]]:
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.process.kill()
        process.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_live_streams_and_the_database_and_exits_with_0(
    started: list[Process], number: signal.Signals
) -> None:
    server = Process()
    started.append(server)
    line = server.until("ready")
    assert re.fullmatch(rf"penstock: ready at {server.url} in \d+\.\d s\n", line)
    url = f"{server.url}/v1/queries/gas_alarm/events"
    with httpx.stream("GET", url, trust_env=False, timeout=PATIENCE_S) as stream:
        lines = stream.iter_lines()
        while next(lines) != "event: rows":
            pass
        server.process.send_signal(number)
        for _ in lines:
            pass  # up to its end: had it been cut off, this would fail
    code, out, err = server.end()
    assert (code, out) == (0, "stopped\n")
    assert "penstock: stopped" in err


def test_what_has_to_be_prepared_comes_before_the_database_and_a_signal_ends_it_at_its_next_step(
    started: list[Process],
) -> None:
    server = Process("prepare")
    started.append(server)
    server.until("compiling kernels")
    answer = server.get("/v1/health")
    assert (answer.status_code, answer.json()["reason"]) == (503, "compiling kernels")
    server.process.send_signal(signal.SIGTERM)
    code, out, err = server.end()
    assert (code, out) == (0, "stopped\n")
    assert "opening the log" not in err


def test_while_it_starts_it_says_so_and_can_be_stopped(started: list[Process], tmp_path: Path) -> None:
    server = Process(gate=tmp_path / "gate")
    started.append(server)
    server.until("opening the log")
    answer = server.get("/v1/health")
    assert (answer.status_code, answer.json()["reason"]) == (503, "opening the log")
    assert server.get("/v1/tables").json()["error"]["condition"] == "not_ready"
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: not server.is_listening())
    (tmp_path / "gate").touch()
    code, out, err = server.end()
    assert (code, out) == (0, "stopped\n")
    assert "ready at" not in err


def test_a_start_that_fails_says_why_and_exits_with_1(started: list[Process]) -> None:
    server = Process("fail")
    started.append(server)
    code, out, err = server.end()
    assert (code, out) == (1, "stopped\n")
    assert 'ERROR 55006 folder_in_use: another server (process 1) uses the data folder "data"' in err
    assert "Traceback" not in err


def test_a_port_that_is_taken_is_noticed_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert run(Settings(port=listener.getsockname()[1])) == 1
    assert "address_in_use" in capsys.readouterr().err


def test_a_reader_of_the_progress_that_left_does_not_end_the_server(started: list[Process], tmp_path: Path) -> None:
    server = Process(gate=tmp_path / "gate")
    started.append(server)
    server.until("opening the log")
    assert server.process.stderr is not None
    server.process.stderr.close()
    server.process.stderr = None
    (tmp_path / "gate").touch()
    eventually(lambda: server.get("/v1/health").status_code == 200)
    server.process.send_signal(signal.SIGTERM)
    assert server.end()[:2] == (0, "stopped\n")


def test_a_name_that_is_not_ours_cannot_be_listened_on() -> None:
    with pytest.raises(PenstockError, match="cannot listen on"):
        bind("192.0.2.1", 8470)


def test_answers_do_not_wait_for_the_other_side_to_acknowledge() -> None:
    """asyncio sets TCP_NODELAY only on sockets that name their protocol; without it every answer takes 44 ms."""
    with bind("127.0.0.1", 0) as listener:
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.proto == socket.IPPROTO_TCP
