"""Whoever reads aggregates while the load runs: subscribers that follow, and one who asks all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx
import numpy as np

from bench.queries_server import ARROW

PAUSE_S = 120.0


@dataclass
class Readers:
    """A subscriber for each of some queries, and invocations of random ones at an even pace. Use as a context manager."""

    url: str
    followed: Sequence[str]
    asked: Sequence[str] = ()
    asks_per_s: float = 0.0
    events: int = 0
    invoked_ms: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    newest: dict[str, int] = field(default_factory=dict)
    """By query, the last cycle that its subscriber was told of."""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._connected = threading.Semaphore(0)
        self._streams: list[httpx.Response] = []
        self._threads = [threading.Thread(target=self._follow, args=(name,), daemon=True) for name in self.followed]
        if self.asks_per_s:
            self._threads.append(threading.Thread(target=self._ask, daemon=True))

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        for _ in self.followed:
            self._connected.acquire(timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for stream in self._streams:
            stream.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def _follow(self, name: str) -> None:
        timeout = httpx.Timeout(60, read=PAUSE_S)
        try:
            with httpx.stream("GET", f"{self.url}/v1/queries/{name}/events", timeout=timeout) as reply:
                self._streams.append(reply)
                self._connected.release()
                for line in reply.iter_lines():
                    if self._stop.is_set():
                        return
                    if line.startswith("id: "):
                        self.newest[name] = int(line[4:])
                    elif line == "event: rows":
                        self.events += 1
                    elif line == "event: error":
                        self.errors.append(f"{name}: its stream ended with an error")
        except (httpx.HTTPError, httpx.StreamError, OSError, RuntimeError) as failure:
            if not self._stop.is_set():
                self.errors.append(f"{name}: {failure!r}")

    def _ask(self) -> None:
        rng = np.random.default_rng(71)
        began, turn = time.monotonic(), 0
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while not self._stop.wait(max(0.0, began + turn / self.asks_per_s - time.monotonic())):
                turn += 1
                name = self.asked[int(rng.integers(len(self.asked)))]
                at = time.perf_counter()
                reply = client.get(f"/v1/queries/{name}/rows", headers=ARROW)
                self.invoked_ms.append((time.perf_counter() - at) * 1000)
                if reply.status_code != 200:
                    self.errors.append(f"{name}: {reply.text[:300]}")
