"""Streams to be joined, pushed at a rate from a process of its own; markers say how soon results come.

`python -m bench.join_load JSON` prints one JSON object. Every stream has a table {prefix}{i}, a connection and one push per
interval. What stream i sends at which time is a function of the task, so that others can count what must come out.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from bench.generator import percentile
from bench.join_workload import STREAMS, arrow_stream

Columns = dict[str, np.ndarray]
LOOKS = 10
"""Looks at the waiting rows, over the last five seconds of a run, whose median is the backlog."""
MOST_ROWS = 50_000
"""Rows of one push: what a silent stream held back comes in several."""


def stream_rows(task: dict[str, Any], stream: int) -> Columns:
    """Everything that a stream sends: `us` from the beginning, in order, and its fields."""
    rng = np.random.default_rng([task["seed"], stream])
    count = round(task["per_stream"] * task["seconds"])
    us = np.sort(rng.integers(0, int(task["seconds"] * 1e6), count))
    if task["do"] == "near":
        return {"us": us, "x": rng.uniform(0, task["side"], count), "y": rng.uniform(0, task["side"], count)}
    return {"us": us, "k": rng.integers(0, task["keys"], count), "v": rng.normal(size=count)}


def with_marker(rows: Columns, number: int, at_us: int) -> Columns:
    """The rows of a push and behind them one with a key of its own."""
    return {
        "us": np.append(rows["us"], at_us),
        "k": np.append(rows["k"], number),
        "v": np.append(rows["v"], 0.0),
    }


def body_of(rows: Columns, origin_us: int) -> bytes:
    count = len(rows["us"])
    columns: dict[str, Any] = {
        "id": pa.array(np.full(count, 1), pa.int32()),
        "ts": pa.array(rows["us"] + origin_us).cast(pa.timestamp("us", tz="UTC")),
    }
    columns |= {name: pa.array(values) for name, values in rows.items() if name != "us"}
    return arrow_stream(pa.record_batch(columns))


class Load:
    """One run: three threads push, a fourth listens for markers.

    A marker is three tuples with a key of their own. The first two streams send theirs one push before the third does, so
    the third one's push completes the combination.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.interval = float(task["interval_s"])
        self.pushes = int(task["seconds"] / self.interval)
        self.first_marker = task.get("keys_from")
        self.sent: dict[int, float] = {}
        self.seen: dict[int, float] = {}
        self.rows = 0
        self.failures: list[str] = []
        self.waiting: list[int] = []
        self._lock = threading.Lock()
        # A stream is silent in [silent_from, silent_until) seconds and sends what it has of that time afterwards.
        self.silent_stream = task.get("silent_stream", -1)
        self.silent = (task.get("silent_from", 0.0), task.get("silent_until", 0.0))

    def run(self) -> dict[str, Any]:
        listening = threading.Event()
        if self.first_marker is not None:
            threading.Thread(target=self._listen, args=(listening,), daemon=True).start()
            listening.wait(20)
        data = [stream_rows(self.task, i) for i in range(STREAMS)]
        self.origin = time.time() + 0.5
        threads = [threading.Thread(target=self._push, args=(i, data[i])) for i in range(STREAMS)]
        done = threading.Event()
        watching = threading.Thread(target=self._watch, args=(done,))
        for thread in (*threads, watching):
            thread.start()
        for thread in threads:
            thread.join()
        ended = time.time()
        status = self._status()
        done.set()
        watching.join()
        deadline = time.monotonic() + 20
        while len(self.seen.keys() & self.sent.keys()) < len(self.sent) and time.monotonic() < deadline:
            time.sleep(0.02)
        late = sorted((self.seen[n] - at) * 1000 for n, at in self.sent.items() if n in self.seen)
        return {
            "rows": self.rows,
            "rate": self.rows / (ended - self.origin),
            "markers": len(self.sent),
            "seen": len(late),
            "p50_ms": percentile(late, 0.5),
            "p99_ms": percentile(late, 0.99),
            "backlog_rows": float(np.median([*self.waiting[-LOOKS:], status["rows_behind"]])),
            "backlog_rows_end": status["rows_behind"],
            "rows_per_cycle": status["rows_per_cycle"],
            "cycle_ms_p50": status["cycle_ms_p50"],
            "cycle_ms_p99": status["cycle_ms_p99"],
            "failures": self.failures[:3],
        }

    def _status(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.task['url']}/v1/status", timeout=60).json())

    def _watch(self, done: threading.Event) -> None:
        """How many rows wait, twice a second: one look may fall just behind a push or just behind a cycle."""
        while not done.wait(0.5):
            self.waiting.append(int(self._status()["rows_behind"]))

    def _push(self, stream: int, data: Columns) -> None:
        target = f"{self.task['url']}/v1/tables/{self.task['prefix']}{stream}/readings"
        origin_us = int(self.origin * 1e6)
        edges = np.searchsorted(data["us"], [int(n * self.interval * 1e6) for n in range(self.pushes + 1)])
        held = 0  # the first row that was not sent yet
        with httpx.Client(timeout=120, headers={"Content-Type": "application/vnd.apache.arrow.stream"}) as client:
            for turn in range(self.pushes):
                due = self.origin + (turn + 1) * self.interval
                if stream == self.silent_stream and self.silent[0] <= turn * self.interval < self.silent[1]:
                    continue
                rows = {name: values[held : edges[turn + 1]] for name, values in data.items()}
                held = edges[turn + 1]
                number = None
                if self.first_marker is not None and turn + (stream != STREAMS - 1) < self.pushes:
                    number = self.first_marker + turn + (stream != STREAMS - 1)
                    rows = with_marker(rows, number, int(turn * self.interval * 1e6))
                for first in range(0, len(rows["us"]), MOST_ROWS):
                    some = {name: values[first : first + MOST_ROWS] for name, values in rows.items()}
                    self._send(client, target, stream, body_of(some, origin_us), due, number if turn else None)

    def _send(
        self, client: httpx.Client, target: str, stream: int, body: bytes, due: float, number: int | None
    ) -> None:
        if (delay := due - time.time()) > 0:
            time.sleep(delay)
        began = time.time()
        reply = client.post(target, content=body)
        with self._lock:
            if reply.status_code != 200:
                self.failures.append(reply.text[:200])
                return
            self.rows += int(reply.json()["accepted"])
            if number is not None and stream == STREAMS - 1:
                self.sent[number] = began

    def _listen(self, listening: threading.Event) -> None:
        url = f"{self.task['url']}/v1/queries/{self.task['query']}/events"
        with httpx.stream("GET", url, timeout=httpx.Timeout(10, read=120)) as reply:
            listening.set()
            for line in reply.iter_lines():
                if line.startswith("data:") and "rows" in line:
                    now = time.time()
                    for row in json.loads(line[5:]).get("rows", []):
                        self.seen.setdefault(int(row["k"]), now)


if __name__ == "__main__":
    print(json.dumps(Load(json.loads(sys.argv[1])).run()))
