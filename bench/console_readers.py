"""Two hundred readers of one query, one of whom stops reading: what that costs the server, and whether the others notice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from bench.foundations import drain
from bench.join_workload import arrow_stream
from bench.queries_server import ARROW, memory_mb, register
from bench.real_memory import proportional
from bench.report import Report
from bench.server import MemoryWatch, Server
from bench.tables import plot

READERS = 199
SENSORS = 50
PUSH_EVERY_S, PUSH_ROWS, TEXT_BYTES = 0.25, 100, 400
WARM_S = 10.0
QUERY = "everything"
TABLE = "CREATE TABLE readings (sensor_id INT PRIMARY KEY, r STREAM (seq BIGINT, sent BIGINT, note TEXT))"
SQL = "SELECT seq, sent, note FROM readings BEGIN (NOW - 10 SECONDS) END (NOW)"
Samples = Sequence[tuple[float, float]]


def measure_readers(report: Report, seconds: float) -> None:
    """The same twice, each in a server of its own: without the slow reader and with it."""
    report.say(f"readers: {READERS} that read for {seconds:.0f} s")
    without = run(seconds, slow=False)
    report.say(f"readers: the same, and one that stops reading; {grown_mb(without['memory']):.1f} MB without it")
    with_one = run(seconds, slow=True)
    report.put("slow_reader_growth_mb", grown_mb(with_one["memory"]) - grown_mb(without["memory"]), with_one["rows"])
    # Where connections are: without Spark's JVM, whose heap comes and goes.
    serving = grown_mb(with_one["serving"]) - grown_mb(without["serving"])
    report.put("slow_reader_growth_serving_mb", serving)
    report.put("slow_reader_unread_mb", with_one["size_mb"])
    for name, found in (("without_slow", without), ("with_slow", with_one)):
        report.put(f"readers_growth_mb_{name}", grown_mb(found["memory"]))
        report.put(f"readers_memory_mb_{name}", found["memory"][-1][1])
        report.put(f"readers_rows_missing_{name}", found["missing"])
        report.put(f"readers_delay_p50_ms_{name}", found["p50_ms"])
        report.put(f"readers_delay_p99_ms_{name}", found["p99_ms"])
        report.put(f"readers_cpu_cores_{name}", found["cores"])
        for text in (*found["ended"], *found["failures"][:3]):
            report.say(f"[bold red]readers, {name}:[/bold red] {text}")
    lines = {
        kind: {"without": columns(without[kind]), "with a slow reader": columns(with_one[kind])}
        for kind in ("memory", "serving")
    }
    plot("console_readers", {"MB, all processes": lines["memory"], "MB, the serving one": lines["serving"]}, "seconds")


def run(seconds: float, slow: bool) -> dict[str, Any]:
    with Server() as server:
        server.sql(TABLE)
        server.sql(f"INSERT INTO readings VALUES {', '.join(f'({i}, NULL)' for i in range(SENSORS))}")
        register(server, [(QUERY, SQL)])
        task = {"port": server.port, "query": QUERY, "readers": READERS, "slow": slow}
        command = [sys.executable, "-m", "bench.console_subscribers", json.dumps(task)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as subscribers:
            assert subscribers.stdin is not None and subscribers.stdout is not None
            if subscribers.stdout.readline() != "ready\n":
                raise RuntimeError(f"not all readers were connected\n{server.log_tail()}")
            found = load(server, seconds)
            subscribers.stdin.write(f"{found['rows']}\n")
            subscribers.stdin.flush()
            found |= json.loads(subscribers.stdout.readline())
    return found


def load(server: Server, seconds: float) -> dict[str, Any]:
    """Push, at first until everything is warm, then while memory is watched."""
    pusher = Pusher(server.url)
    pusher.push_for(min(WARM_S, seconds))
    cpu, began = server.cpu_seconds(), time.monotonic()
    serving = lambda: proportional(server.process.pid).get("Pss", 0) / 2**20  # noqa: E731
    with MemoryWatch(server, lambda: memory_mb(server), every_s=1.0) as whole, MemoryWatch(server, serving, 1.0) as one:
        pusher.push_for(seconds)
    cores = (server.cpu_seconds() - cpu) / (time.monotonic() - began)
    drain(server)
    return {
        "rows": pusher.rows,
        "failures": pusher.failures,
        "memory": whole.samples,
        "serving": one.samples,
        "cores": cores,
    }


class Pusher:
    """Pushes rows with numbers from 0 on, and when each was sent."""

    def __init__(self, url: str) -> None:
        self._target = f"{url}/v1/tables/readings/readings"
        self._rng = np.random.default_rng(83)
        self.rows = 0
        self.failures: list[str] = []

    def push_for(self, seconds: float) -> None:
        began = time.monotonic()
        with httpx.Client(timeout=60) as client:
            for turn in range(round(seconds / PUSH_EVERY_S)):
                time.sleep(max(0.0, began + turn * PUSH_EVERY_S - time.monotonic()))
                body = arrow_stream(push_batch(self.rows, round(time.time() * 1e6), self._rng))
                reply = client.post(self._target, content=body, headers={"Content-Type": ARROW["Accept"]})
                if reply.status_code == 200:
                    self.rows += PUSH_ROWS
                else:
                    self.failures.append(reply.text[:200])


def push_batch(first: int, sent_us: int, rng: np.random.Generator) -> pa.RecordBatch:
    """Rows with numbers from `first` on, and a text that makes them as long as readers have to be fed."""
    seq = np.arange(first, first + PUSH_ROWS)
    notes = [rng.bytes(TEXT_BYTES // 2).hex() for _ in range(PUSH_ROWS)]
    sensors = pa.array(seq % SENSORS, pa.int32())
    return pa.record_batch({"sensor_id": sensors, "seq": seq, "sent": np.full(PUSH_ROWS, sent_us), "note": notes})


def grown_mb(samples: Samples) -> float:
    """From the first tenth of the samples to the last quarter of them, by their medians."""
    sizes = [size for _, size in samples]
    if not sizes:
        return float("nan")
    first, last = sizes[: max(1, len(sizes) // 10)], sizes[-max(1, len(sizes) // 4) :]
    return float(np.median(last) - np.median(first))


def columns(samples: Samples) -> tuple[list[float], list[float]]:
    return [at for at, _ in samples], [size for _, size in samples]
