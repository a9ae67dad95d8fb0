"""A thousand windowed aggregates on one stream at 60 000 tuples/s, some of them read all the time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from bench.foundations import drain, generate, keeps_up
from bench.generator import MARKER, percentile
from bench.join_workload import arrow_stream
from bench.queries_selections import backlog_cycles
from bench.queries_server import ARROW, hold, register, task_of, wait_past
from bench.report import Report
from bench.server import Server
from bench.statistics_readers import Readers
from bench.statistics_workload import (
    HOUR_S,
    MARKERS,
    TABLE,
    Aggregate,
    aggregates,
    as_frame,
    expected,
    history,
    inserts,
    push_batch,
)
from bench.tables import write_table
from penstock.clock import parse_timestamp

COUNTS, RATE, SEED = (10, 100, 1_000), 60_000, 55
FOLLOWED, ASKS_PER_S = 10, 5.0
HISTORY_AT_ONCE_S = 300
WARM_S, WARM_RATE, CHECKED = 8.0, 20_000, 40


def measure_aggregates(report: Report, seconds: float, counts: Sequence[int] = COUNTS, rate: int = RATE) -> None:
    table: list[dict[str, Any]] = []
    for count in counts:
        report.say(f"aggregates: {count:,} of them, {rate:,} tuples/s for {seconds:.0f} s")
        with Server() as server:
            found = run(report, server, aggregates(count, SEED), rate, seconds)
        put(report, found, f"{count}_aggregates_{rate // 1000}k", rate)
        table.append(line(found, count, rate))
        write_table("statistics_aggregates", "Windowed aggregates, windows of 1 s to 1 hour, 4 groupings", table)


def run(report: Report, server: Server, chosen: Sequence[Aggregate], rate: int, seconds: float) -> dict[str, Any]:
    set_up(server)
    names = [f"q{number}" for number in range(len(chosen))]
    began = time.monotonic()
    register(server, list(zip(names, (c.sql() for c in chosen), strict=True)))
    report.say(f"aggregates: registered in {time.monotonic() - began:.1f} s; an hour of history")
    origin_us = int(time.time()) * 1_000_000
    pushed = push_history(server, origin_us)
    warm, load = tasks(server, rate, seconds, origin_us)
    generate(**warm)
    drain(server)
    followed = names[:: max(1, len(names) // FOLLOWED)][:FOLLOWED]
    with Readers(server.url, followed, names, ASKS_PER_S) as readers:
        found = hold(server, load)
    drain(server)
    wait_past(server, server.status()["cycle"] + 1, timeout_s=2)
    pushed += pushes(warm) + pushes(load)
    wrong = wrong_answers(server, dict(zip(names, chosen, strict=True)), pushed)
    return {
        **found,
        "events": readers.events,
        "invoked_ms": sorted(readers.invoked_ms),
        "errors": readers.errors,
        "failed_queries": server.failed_queries(),
        "wrong": wrong,
    }


def set_up(server: Server) -> None:
    server.sql(TABLE)
    server.sql(inserts())
    register(server, [("markers", MARKERS)])


def tasks(server: Server, rate: int, seconds: float, origin_us: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The warm-up's and the load's, one after the other in the time of the readings, without a gap."""
    more: dict[str, Any] = {"workload": "statistics", "connections": 1}
    warm = task_of(server, WARM_RATE, WARM_S, seed=91, origin_us=origin_us, **more)
    load_us = origin_us + round(WARM_S * 1e6)
    return warm, task_of(server, rate, seconds, seed=92, origin_us=load_us, **more)


def push_history(server: Server, end_us: int) -> list[pa.RecordBatch]:
    pushed = []
    for first in range(0, HOUR_S, HISTORY_AT_ONCE_S):
        batch = history(SEED, end_us - HOUR_S * 1_000_000, first, HISTORY_AT_ONCE_S)
        push(server, batch)
        pushed.append(batch)
    drain(server)
    return pushed


def push(server: Server, batch: pa.RecordBatch, table: str = "readings") -> None:
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    target = f"{server.url}/v1/tables/{table}/readings"
    reply = httpx.post(target, content=arrow_stream(batch), headers=headers, timeout=60)
    if reply.status_code != 200 or reply.json()["accepted"] != batch.num_rows:
        raise RuntimeError(reply.text[:2000])


def pushes(task: dict[str, Any]) -> list[pa.RecordBatch]:
    """What the generator pushed, again from its seed."""
    rows = max(1, round(task["rate"] * task["interval_s"]))
    return [push_batch(task, index, rows, MARKER) for index in range(int(task["seconds"] / task["interval_s"]))]


def wrong_answers(server: Server, chosen: dict[str, Aggregate], pushed: list[pa.RecordBatch]) -> list[str]:
    """Of some windows that slide with NOW, those that do not answer what pandas says of the same rows."""
    sliding = [name for name, asked in chosen.items() if asked.step_s is None]
    some = np.random.default_rng(72).permutation(len(sliding))[:CHECKED]
    rows, wrong = as_frame(pushed), []
    for name in (sliding[i] for i in some):
        reply = httpx.get(f"{server.url}/v1/queries/{name}/rows", headers=ARROW, timeout=60)
        reply.raise_for_status()
        now_us = parse_timestamp(reply.headers["Penstock-Now"])
        answer = pa.ipc.open_stream(reply.content).read_all().to_pylist()
        right = expected(chosen[name], rows, now_us)
        ours = {row.get("k"): row["v"] for row in answer}
        close = ours.keys() == right.keys() and all(np.isclose(ours[k], right[k], rtol=1e-9) for k in right)
        wrong += [] if close else [name]
    return wrong


def put(report: Report, found: dict[str, Any], name: str, rate: int) -> None:
    for key in ("cycle_p50_ms", "cycle_p99_ms", "job_p99_ms"):
        report.put(f"{key}_{name}", found[key])
    report.put(f"push_to_visible_p50_ms_{name}", found["p50_ms"], found["rows"])
    report.put(f"push_to_visible_p99_ms_{name}", found["p99_ms"])
    report.put(f"backlog_cycles_{name}", backlog_cycles(found))
    report.put(f"invoke_p50_ms_{name}", percentile(found["invoked_ms"], 0.5))
    report.put(f"invoke_p99_ms_{name}", percentile(found["invoked_ms"], 0.99))
    report.put(f"events_{name}", found["events"])
    report.put(f"cpu_cores_{name}", found["cores"])
    report.put(f"memory_mb_{name}", found["memory_mb"])
    report.put(f"keeps_up_{name}", float(keeps_up(found, rate)))
    errors = len(found["errors"]) + len(found["failures"]) + found["failed_queries"]
    report.put(f"errors_{name}", errors)
    report.put(f"answers_wrong_{name}", len(found["wrong"]))
    for text in (*found["errors"][:3], *found["failures"][:3], *found["wrong"][:5]):
        report.say(f"[bold red]aggregates:[/bold red] {text}")


def line(found: dict[str, Any], count: int, rate: int) -> dict[str, Any]:
    return {
        "aggregates": count,
        "tuples/s": rate,
        "pushed/s": float(found["rate"]),
        "cycle p50 ms": found["cycle_p50_ms"],
        "cycle p99 ms": found["cycle_p99_ms"],
        "visible p50 ms": found["p50_ms"],
        "visible p99 ms": found["p99_ms"],
        "backlog, cycles": backlog_cycles(found),
        "invoke p50 ms": percentile(found["invoked_ms"], 0.5),
        "invoke p99 ms": percentile(found["invoked_ms"], 0.99),
        "cores": found["cores"],
        "memory MB": found["memory_mb"],
        "keeps up": "yes" if keeps_up(found, rate) else "no",
    }
