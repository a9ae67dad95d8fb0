"""A real `penstock serve` in a process of its own, whose parts can be killed one by one.

Every process that is ever killed here was recorded with its pid and start time while it was ours; nothing is
looked up by name on the machine.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

import psutil

import penstock
from penstock.client.connection import Connection
from penstock.errors import PenstockError
from tests.support.spark_lock import one_spark

ROOT = Path(__file__).parents[2]
START_S = 180.0
OBSERVED_EVERY = 8  # looking at all processes of the machine takes longer than asking the server
Part = Literal["server", "jvm", "worker", "daemon", "planner", "executor"]


@dataclass(frozen=True)
class Known:
    """A process that was ours: a pid alone may be somebody else's by now."""

    pid: int
    started: float
    part: Part

    def alive(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def kill(self) -> bool:
        """SIGKILL, if it still is the process that was recorded."""
        if not self.alive():
            return False
        os.kill(self.pid, signal.SIGKILL)
        return True


class ServerProcess:
    """One data folder and the servers that run on it, one after the other, always at the same address."""

    def __init__(
        self,
        folder: Path,
        master: str = "local[2]",
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        launcher: Sequence[str] = ("-m", "penstock"),
    ) -> None:
        self.data = folder / "data"
        self.log = folder / "server.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.master = master
        self.options = tuple(options)
        self.launcher = tuple(launcher)
        self.environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[int, Known] = {}

    # -- life

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process; ready later."""
        arguments = ["serve", "--data", str(self.data), "--port", str(self.port), "--spark-master", self.master]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **self.environment}
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *self.launcher, *arguments, *self.options],
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self.log.parent,
                start_new_session=True,
            )
        self._remember(psutil.Process(self._process.pid), "server")
        return self._process

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def wait_ready(self, timeout_s: float = START_S) -> None:
        """Until health says ready, with everything that the server printed if it does not."""
        with self.connect() as db:
            self.wait(lambda: _ready(db), timeout_s, "ready")
        self.observe()

    def wait(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        for times in count():
            if condition():
                return
            assert self.process.poll() is None, f"the server ended with {self.process.poll()}:\n{self.printed()}"
            assert time.monotonic() < deadline, f"not {what} within {timeout_s} s:\n{self.printed()}"
            if times % OBSERVED_EVERY == 0:
                self.observe()
            time.sleep(0.05)

    def wait_for_end(self, timeout_s: float = START_S) -> int:
        """Until it ends by itself, recording what it starts on the way."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running after {timeout_s} s:\n{self.printed()}"
            self.observe()
            time.sleep(0.05)
        return self.process.wait()

    def run_to_end(self, timeout_s: float = 120.0) -> tuple[int, str]:
        """Start a server that is expected to refuse: its exit code and what it said."""
        before = len(self.printed())
        self.launch()
        code = self.process.wait(timeout_s)
        return code, self.printed()[before:]

    def stop(self) -> int:
        """SIGTERM, as an operator would; the exit code."""
        self.observe()
        self.process.terminate()
        code = self.process.wait(60)
        self.assert_all_gone()
        return code

    def clean_up(self) -> None:
        """Whatever a failed test left behind goes, and only that."""
        self.observe()
        if self.running:
            self.process.kill()
            self.process.wait(60)
        deadline = time.monotonic() + 10
        while any(k.alive() for k in self._known.values()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for known in self._known.values():
            known.kill()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def connect(self) -> Connection:
        return penstock.connect(self.url)

    def printed(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    # -- processes

    def observe(self) -> list[Known]:
        """Record the server's descendants as they are now; those that are alive."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        for child in children:
            try:
                self._remember(child, _part_of(child))
            except psutil.NoSuchProcess:
                continue
        return [k for k in self._known.values() if k.alive()]

    def _remember(self, process: psutil.Process, part: Part) -> None:
        known = self._known.get(process.pid)
        if known is None or known.started != process.create_time() or known.part != part:
            self._known[process.pid] = Known(process.pid, process.create_time(), part)

    def parts(self, part: Part) -> list[Known]:
        return [k for k in self.observe() if k.part == part]

    def kill(self, part: Part, number: int = 0) -> Known:
        """SIGKILL one process of the kind; waits for the server's own end."""
        found: list[Known] = []

        def is_there() -> bool:
            found[:] = self.parts(part)
            return bool(found)

        self.wait(is_there, 120, f"running a {part}")
        chosen = found[number % len(found)]
        chosen.kill()
        if part == "server":
            self.process.wait(60)
        return chosen

    def kill_all(self) -> None:
        """SIGKILL, all of them, as a power cut would."""
        found = self.observe()
        for known in found:
            known.kill()
        self.process.wait(60)
        self.assert_all_gone()

    def assert_all_gone(self, within_s: float = 60.0) -> None:
        """No process that the server ever started is left."""
        deadline = time.monotonic() + within_s
        while left := [k for k in self._known.values() if k.alive()]:
            assert time.monotonic() < deadline, f"still running: {left}"
            time.sleep(0.1)


def _part_of(process: psutil.Process) -> Part:
    command = process.cmdline()
    if process.name().startswith("java"):
        return "executor" if any("CoarseGrainedExecutorBackend" in word for word in command) else "jvm"
    parent = process.parent()
    if "pyspark.daemon" in command:
        # The daemon forks one worker per task slot; both show the same command line.
        forked = parent is not None and "pyspark.daemon" in parent.cmdline()
        runs_tasks = "pyspark.worker" in command
        return ("worker" if runs_tasks else "planner") if forked else "daemon"
    return "planner"


def _ready(db: Connection) -> bool:
    try:
        return bool(db.health()["ready"])
    except PenstockError:
        return False


def clear(db: Connection) -> None:
    """Drop everything that was defined."""
    for query in db.queries():
        db.sql(f'DROP QUERY IF EXISTS "{query["name"]}" CASCADE')
    for table in db.tables():
        db.sql(f'DROP TABLE "{table["name"]}" CASCADE')
    for kind in ("STREAM TYPE", "FUNCTION"):
        for row in db.sql(f"SHOW {kind}S").rows():
            db.sql(f'DROP {kind} "{row["name"]}" CASCADE')


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def local_server_process(folder: Path) -> Iterator[ServerProcess]:
    """A server that is not started yet, whose cycles run without Spark; nothing of it is left afterwards."""
    server = ServerProcess(folder, launcher=("-m", "tests.support.launch_local"))
    try:
        yield server
    finally:
        server.clean_up()


@contextmanager
def server_process(
    folder: Path,
    master: str = "local[2]",
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    launcher: Sequence[str] = ("-m", "penstock"),
) -> Iterator[ServerProcess]:
    """A server that is not started yet, with Spark reserved for it; nothing of it is left afterwards."""
    with one_spark():
        server = ServerProcess(folder, master, options, environment, launcher)
        try:
            yield server
        finally:
            server.clean_up()
