"""A real broker for tests: Mosquitto on a free port, with persistence, to be stopped, killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

PROGRAM = shutil.which("mosquitto") or ("/usr/sbin/mosquitto" if Path("/usr/sbin/mosquitto").exists() else None)

needs_mosquitto = pytest.mark.skipif(
    PROGRAM is None, reason="NO MOSQUITTO HERE: nothing about MQTT is tested; install the Debian package mosquitto"
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Mosquitto:
    """One broker. Its messages and sessions outlive `stop` and, as far as it has saved them, `kill`."""

    def __init__(self, folder: Path, more: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self._config = folder / "mosquitto.conf"
        self._log = folder / "mosquitto.log"
        self._saved = folder / "mosquitto.db"
        self._process: subprocess.Popen[bytes] | None = None
        user = "user root\n" if os.geteuid() == 0 else ""
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\n{user}"
            f"persistence true\npersistence_location {folder}/\n"
            "max_queued_messages 0\nmax_inflight_messages 500\n"
            + ("" if "allow_anonymous" in more else "allow_anonymous true\n")
            + more
        )
        self.start()

    def start(self) -> None:
        assert PROGRAM is not None and self._process is None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([PROGRAM, "-c", str(self._config)], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.02)

    def save(self) -> None:
        """Returns when everything that it has acknowledged by now, and the sessions of its clients, would outlive `kill`."""
        assert self._process is not None
        before = self._saved_at()
        self._process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 60
        while self._saved_at() == before:
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.01)

    def _saved_at(self) -> tuple[int, int] | None:
        """The file is written beside the old one and renamed."""
        found = self._saved.stat() if self._saved.exists() else None
        return None if found is None else (found.st_ino, found.st_mtime_ns)

    def stop(self) -> None:
        """In order: everything is saved."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """At once: what was not saved is gone."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None
