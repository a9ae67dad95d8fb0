"""How long an invocation takes at a window of 2^15 tuples: over HTTP, and in the process that holds the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import httpx
import numpy as np

from bench.foundations import drain, generate
from bench.generator import percentile
from bench.queries_bed import local_bed
from bench.queries_server import ARROW, loaded, named, register, set_up, task_of, wait_past, warm_up, with_times
from bench.query_workload import selections
from bench.report import Report
from bench.server import Server

QUERIES, WINDOW_TUPLES, RATE = 200, 2**15, 20_000
SEED = 44
INVOCATIONS = 1_000
FILL_S = 5.0


def measure_invoke(report: Report) -> None:
    measure_http(report)
    measure_process(report)


def measure_http(report: Report) -> None:
    queries = named(selections(QUERIES, SEED, window_tuples=WINDOW_TUPLES), RATE)
    names = [name for name, _ in queries]
    with Server() as server:
        set_up(server, own_times=True)
        warm_up(server, own_times=True)
        register(server, queries)
        report.say(f"invoke: {QUERIES} queries with windows of 2^15 tuples over HTTP")
        task = task_of(server, RATE, FILL_S, seed=4)
        generate(**with_times(task))
        drain(server)
        wait_past(server, server.status()["cycle"] + 1, timeout_s=2)
        with httpx.Client(timeout=60, base_url=server.url) as client:
            for form, headers in (("", ARROW), ("json_", {"Accept": "application/json"})):
                spent, rows = timed(partial(ask, client, headers), names)
                report.put(f"invoke_http_{form}p50_ms", percentile(spent, 0.5))
                report.put(f"invoke_http_{form}p99_ms", percentile(spent, 0.99))
                report.put(f"invoke_http_{form}bytes_p50", percentile(rows, 0.5))
            # As long as the load lasts, with the same rate: the windows hold the same number of tuples.
            with loaded(with_times({**task, "seconds": 15.0, "seed": 5})):
                time.sleep(3)
                spent, _ = timed(partial(ask, client, ARROW), names, most_s=10)
            report.put("invoke_http_busy_p50_ms", percentile(spent, 0.5))
            report.put("invoke_http_busy_p99_ms", percentile(spent, 0.99))


def ask(client: httpx.Client, headers: dict[str, str], name: str) -> int:
    """Bytes of the answer."""
    reply = client.get(f"/v1/queries/{name}/rows", headers=headers)
    reply.raise_for_status()
    return len(reply.content)


def measure_process(report: Report) -> None:
    with local_bed() as bed:
        report.say(f"invoke: {QUERIES} queries with windows of 2^15 tuples in this process")
        names = bed.register(selections(QUERIES, SEED, window_tuples=WINDOW_TUPLES))
        bed.push(2 * WINDOW_TUPLES)
        bed.engine.drain()
        spent, rows = timed(lambda name: len(bed.database.invoke(name).table), names)
    report.put("invoke_process_p50_ms", percentile(spent, 0.5))
    report.put("invoke_process_p99_ms", percentile(spent, 0.99))
    report.put("invoke_process_rows_p50", percentile(rows, 0.5))


def timed(
    invoke: Callable[[str], int], names: Sequence[str], times: int = INVOCATIONS, most_s: float = 60.0
) -> tuple[list[float], list[float]]:
    """Milliseconds and sizes, sorted; each query once before anything is timed, then random ones."""
    for name in names:
        invoke(name)
    rng = np.random.default_rng(7)
    spent: list[float] = []
    sizes: list[float] = []
    deadline = time.monotonic() + most_s
    while len(spent) < times and time.monotonic() < deadline:
        name = names[int(rng.integers(len(names)))]
        began = time.perf_counter()
        sizes.append(float(invoke(name)))
        spent.append((time.perf_counter() - began) * 1000)
    return sorted(spent), sorted(sizes)
