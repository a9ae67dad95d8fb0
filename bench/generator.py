"""The load, in a process of its own: pushes readings at a rate, and watches its own markers come back.

`python -m bench.generator JSON` prints one JSON object. Each batch carries one marker row that a standing query
selects; a subscriber in this process notes when it arrives. So a latency is from the start of the push of a
reading to the arrival of the answer that holds it, through the public API.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import httpx
import numpy as np
import orjson
import pyarrow as pa

from bench import statistics_workload
from bench.join_workload import arrow_stream
from bench.query_workload import push_batch

MARKER = 1_000_000_000
LOOKS = 10
"""Looks at the waiting rows whose median is the backlog, where the task asks for `looks`: the last five seconds."""


def arrow_body(rows: int, sensors: int, marker: float | None, rng: np.random.Generator) -> bytes:
    value = rng.random(rows) * 100
    mark = np.zeros(rows)
    if marker is not None:
        mark[0] = marker
    batch = pa.record_batch(
        {
            "sensor_id": pa.array(rng.integers(0, sensors, rows), pa.int32()),
            "value": value,
            "quality": pa.array(rng.integers(0, 100, rows), pa.int32()),
            "level": rng.random(rows),
            "marker": mark,
        }
    )
    return arrow_stream(batch)


def push_body(task: dict[str, Any], index: int, rows: int, marker: int) -> bytes:
    """The push with this number, of the workload that the task names."""
    if task.get("workload") == "selections":
        return arrow_stream(push_batch(task, index, rows, marker))
    if task.get("workload") == "statistics":
        return arrow_stream(statistics_workload.push_batch(task, index, rows, marker))
    return arrow_body(rows, task["sensors"], float(marker), np.random.default_rng(index))


def rows_of(body: bytes) -> list[dict[str, Any]]:
    return list(pa.ipc.open_stream(body).read_all().to_pylist())


def encode(body: bytes, form: str) -> tuple[bytes, str]:
    """The same readings in another format."""
    if form == "arrow":
        return body, "application/vnd.apache.arrow.stream"
    rows = rows_of(body)
    if form == "json":
        return orjson.dumps(rows), "application/json"
    if form == "ndjson":
        return b"\n".join(orjson.dumps(r) for r in rows), "application/x-ndjson"
    names = list(rows[0])
    lines = [",".join(names), *(",".join(str(r[n]) for n in names) for r in rows)]
    return "\n".join(lines).encode(), "text/csv"


class Markers:
    """Reads the marker query's events and notes when each marker came."""

    def __init__(self, url: str, query: str) -> None:
        self._url = f"{url}/v1/queries/{query}/events"
        self.seen: dict[int, float] = {}
        self._stop = False
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with httpx.stream("GET", self._url, timeout=httpx.Timeout(10, read=120)) as reply:
            self.ready.set()
            for line in reply.iter_lines():
                if self._stop:
                    return
                if line.startswith("data:") and "rows" in line:
                    now = time.monotonic()
                    for row in orjson.loads(line[5:]).get("rows", []):
                        number = int(row[0] if isinstance(row, list) else row["marker"])
                        self.seen.setdefault(number, now)

    def stop(self) -> None:
        self._stop = True


def hold_rate(task: dict[str, Any]) -> dict[str, Any]:
    """Push `rate` rows/s for `seconds`, in batches of `interval_s`; latencies of the markers."""
    rng = np.random.default_rng(task["seed"])
    interval = task["interval_s"]
    rows = max(1, round(task["rate"] * interval))
    markers = Markers(task["url"], task["query"])
    markers.ready.wait(20)
    target = f"{task['url']}/v1/tables/{task['table']}/readings"
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    sent: dict[int, float] = {}
    pushed = 0
    lock = threading.Lock()
    workers = task.get("connections", 2)
    numbers = iter(range(MARKER + task["seed"] * 1_000_000, MARKER + (task["seed"] + 1) * 1_000_000))
    began = time.monotonic() + 0.2
    total = int(task["seconds"] / interval)
    turn = iter(range(total))
    failures: list[str] = []
    push_ms: list[float] = []

    def work() -> None:
        nonlocal pushed
        with httpx.Client(timeout=60) as client:
            while True:
                with lock:
                    index, number = next(turn, None), next(numbers)
                if index is None:
                    return
                body = push_body(task, index, rows, number)
                delay = began + index * interval - time.monotonic()
                if delay > 0:
                    time.sleep(delay)
                at = time.monotonic()
                reply = client.post(target, content=body, headers=headers)
                if reply.status_code != 200:
                    failures.append(reply.text[:200])
                    continue
                with lock:
                    sent[number] = at
                    push_ms.append((time.monotonic() - at) * 1000)
                    pushed += reply.json()["accepted"]

    looks: list[int] = []
    done = threading.Event()

    def look() -> None:
        """How many rows wait, twice a second: one look may fall just behind a push or just behind a cycle."""
        while task.get("looks") and not done.wait(0.5):
            looks.append(httpx.get(f"{task['url']}/v1/status", timeout=60).json()["rows_behind"])

    watching = threading.Thread(target=look, daemon=True)
    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in (*threads, watching):
        thread.start()
    for thread in threads:
        thread.join()
    ended = time.monotonic()
    backlog = httpx.get(f"{task['url']}/v1/status", timeout=60).json()
    done.set()
    deadline = time.monotonic() + 20
    while len(markers.seen.keys() & sent.keys()) < len(sent) and time.monotonic() < deadline:
        time.sleep(0.02)
    markers.stop()
    _ = rng
    latencies = sorted((markers.seen[n] - at) * 1000 for n, at in sent.items() if n in markers.seen)
    return {
        "rows": pushed,
        "seconds": ended - began,
        "rate": pushed / (ended - began),
        "markers": len(sent),
        "markers_seen": len(latencies),
        "mean_ms": float(np.mean(latencies)) if latencies else float("nan"),
        "p50_ms": percentile(latencies, 0.5),
        "p99_ms": percentile(latencies, 0.99),
        "push_mean_ms": float(np.mean(push_ms)) if push_ms else float("nan"),
        "push_p50_ms": percentile(sorted(push_ms), 0.5),
        "backlog_rows": float(np.median([*looks[-LOOKS:], backlog["rows_behind"]])),
        "backlog_rows_end": backlog["rows_behind"],
        "cycle_ms_p50": backlog["cycle_ms_p50"],
        "cycle_ms_p99": backlog["cycle_ms_p99"],
        "rows_per_cycle": backlog["rows_per_cycle"],
        "rows_per_s_server": backlog["rows_per_s"],
        "failures": failures[:3],
    }


def ingest_rate(task: dict[str, Any]) -> dict[str, Any]:
    """Push prepared bodies of one format as fast as they are acknowledged."""
    rng = np.random.default_rng(1)
    prepared = [encode(arrow_body(task["batch"], task["sensors"], None, rng), task["format"]) for _ in range(8)]
    target = f"{task['url']}/v1/tables/{task['table']}/readings"
    deadline = time.monotonic() + task["seconds"]
    counts = [0] * task.get("connections", 2)

    def work(slot: int) -> None:
        with httpx.Client(timeout=60) as client:
            turn = slot
            while time.monotonic() < deadline:
                body, media = prepared[turn % len(prepared)]
                reply = client.post(target, content=body, headers={"Content-Type": media})
                reply.raise_for_status()
                counts[slot] += reply.json()["accepted"]
                turn += 1

    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    return {"rows": sum(counts), "seconds": seconds, "rate": sum(counts) / seconds}


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    print(json.dumps({"hold_rate": hold_rate, "ingest_rate": ingest_rate}[wanted["do"]](wanted)))
