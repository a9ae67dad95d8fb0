"""A server in a process of its own, for as long as the demo runs."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.client import Connection
from penstock.errors import PenstockError, error

READY_WITHIN_S = 120.0
STOP_WITHIN_S = 30.0


@contextmanager
def running_server(data: Path, port: int, progress: Callable[[str], None]) -> Iterator[Connection]:
    """`penstock serve` on a data folder, ready; on the way out it is stopped and waited for, whatever happened."""
    with tempfile.TemporaryFile() as printed:
        # A session of its own: Ctrl-C reaches the demo alone, which then stops the server in order.
        server = subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", "--data", str(data), "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            with Connection(f"http://127.0.0.1:{port}") as connection:
                _wait_until_ready(server, connection, progress)
                yield connection
        except PenstockError as problem:
            if server.poll() is None:
                raise
            printed.seek(0)
            tail = printed.read().decode(errors="replace").strip().splitlines()[-12:]
            raise error("engine_failed", detail="the server ended:\n  " + "\n  ".join(tail)) from problem
        finally:
            _stop(server)


def _end_with_parent() -> None:
    """If the demo is killed outright, its server goes too (Linux; elsewhere it stays)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _wait_until_ready(server: subprocess.Popen[bytes], connection: Connection, progress: Callable[[str], None]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    shown = ""
    while True:
        if server.poll() is not None:
            raise error("not_ready", detail=f"the server ended with code {server.returncode}")
        try:
            health = connection.health()
        except PenstockError:
            health = {"ready": False, "reason": "starting"}  # not listening yet
        if health["ready"]:
            return
        if health["reason"] != shown:
            shown = health["reason"]
            progress(shown)
        if time.monotonic() > deadline:
            raise error("not_ready", detail=f"the server was not ready after {READY_WITHIN_S:.0f} s: {shown}")
        time.sleep(0.2)


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def free_port(wanted: int) -> int:
    """The wanted port if it is free, else one that the system gives."""
    for port in (wanted, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as listener:
                return int(listener.getsockname()[1])
        except OSError:
            continue
    raise error("not_ready", detail="there is no free port on this machine")
