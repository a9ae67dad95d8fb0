"""A real server in a process of its own, with its cost: processor time and memory of all its processes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil


class Server:
    """`penstock serve` in a temporary data folder, or in one that stays. Use as a context manager."""

    def __init__(self, data: Path | None = None, **settings: Any) -> None:
        """`data` is a data folder that stays when the server has stopped."""
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.data = data or self.folder / "data"
        self.url = f"http://127.0.0.1:{self.port}"
        flags = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items()]
        self._command = [sys.executable, "-m", "penstock", "serve", "--data", str(self.data)]
        self._command += ["--port", str(self.port), *flags]
        self.ready_s = 0.0

    def __enter__(self) -> Server:
        began = time.monotonic()
        self._log = (self.folder / "server.log").open("wb")
        self.process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log, cwd=self.folder)
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(self.log_tail())
            try:
                if httpx.get(f"{self.url}/v1/health", timeout=2).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            if time.monotonic() - began > 180:
                self.process.terminate()  # nobody else would: __exit__ is not called
                raise RuntimeError("the server did not become ready within three minutes")
            time.sleep(0.05)
        self.ready_s = time.monotonic() - began
        self.tree = psutil.Process(self.process.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, text: str) -> dict[str, Any]:
        reply = httpx.post(f"{self.url}/v1/sql", json={"sql": text}, timeout=120)
        if reply.status_code >= 500:
            raise RuntimeError(f"{reply.text}\n{self.log_tail()}")
        if reply.status_code >= 400:
            raise RuntimeError(reply.text)
        return dict(reply.json())

    def log_text(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def log_tail(self) -> str:
        return self.log_text()[-3000:]

    def status(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.url}/v1/status", timeout=60).json())

    def failed_queries(self) -> int:
        """Queries that the server itself says have failed."""
        details = httpx.get(f"{self.url}/v1/health", timeout=60).json()["details"]
        return int(details.get("failed_queries", 0))

    def processes(self) -> list[psutil.Process]:
        return [self.tree, *self.tree.children(recursive=True)]

    def memory_mb(self) -> float:
        return sum(_value(lambda p=p: p.memory_info().rss) for p in self.processes()) / 2**20

    def cpu_seconds(self) -> float:
        total = 0.0
        for process in self.processes():
            times = _value(lambda p=process: sum(p.cpu_times()[:2]))
            total += times
        return total

    def files(self) -> int:
        """The most files that one table's log has."""
        log = self.data / "log"
        return max((len(os.listdir(t)) for t in log.iterdir() if t.is_dir()), default=0)


def _value(read: Any) -> float:
    try:
        return float(read())
    except psutil.Error:
        return 0.0


class MemoryWatch:
    """Samples the memory of all of a server's processes, twice a second, in a thread."""

    def __init__(self, server: Server, read: Callable[[], float] | None = None, every_s: float = 0.5) -> None:
        """`read` is another way to say how many MB."""
        self._read = read or server.memory_mb
        self._every_s = every_s
        self.samples: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.samples.append((time.monotonic() - self._began, self._read()))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def slope_mb_per_min(self, after_s: float) -> float:
        """Least squares over the medians of ten seconds each, after a time.

        Medians, because a process that forks counts twice for a moment although it shares every page.
        """
        import numpy as np

        bins: dict[int, list[float]] = {}
        for seconds, size in self.samples:
            if seconds >= after_s:
                bins.setdefault(int(seconds // 10), []).append(size)
        if len(bins) < 3:
            return float("nan")
        times = np.array([10 * b / 60 for b in bins])
        return float(np.polyfit(times, [float(np.median(sizes)) for sizes in bins.values()], 1)[0])
