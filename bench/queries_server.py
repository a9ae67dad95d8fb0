"""A server with standing selections: set up, loaded, and asked what its cycles cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any

import httpx

from bench.foundations import drain, generate
from bench.generator import percentile
from bench.query_workload import SENSORS, Selection
from bench.real_memory import real_memory_mb
from bench.server import Server

FIELDS = "a INT, b INT, c INT, d INT, marker BIGINT"
MARKERS = "SELECT marker FROM readings WHERE marker > 0 BEGIN (NOW - 10 SECONDS) END (NOW)"
ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
INTERVAL_S = 0.05
REGISTER_AT_ONCE = 1_000
WARM_SECONDS, WARM_SEED = 8.0, 990


def table_sql(own_times: bool) -> str:
    options = " WITH (time = 'valid')" if own_times else ""
    return f"CREATE TABLE readings (sensor_id INT PRIMARY KEY, r STREAM ({FIELDS})){options}"


def sensors_sql(sensors: int = SENSORS) -> str:
    return f"INSERT INTO readings VALUES {', '.join(f'({i}, NULL)' for i in range(sensors))}"


def set_up(server: Server, own_times: bool = False, sensors: int = SENSORS) -> None:
    """The table and the query that tells how soon a reading is visible."""
    server.sql(table_sql(own_times))
    server.sql(sensors_sql(sensors))
    register(server, [("markers", MARKERS)])


def named(selections: Sequence[Selection], rate: float, prefix: str = "q") -> list[tuple[str, str]]:
    return [(f"{prefix}{number}", chosen.sql(rate)) for number, chosen in enumerate(selections)]


def register(server: Server, queries: Sequence[tuple[str, str]], timeout_s: float = 600) -> None:
    """Register them, a thousand in a call."""
    for first in range(0, len(queries), REGISTER_AT_ONCE):
        some = [{"name": name, "sql": sql} for name, sql in queries[first : first + REGISTER_AT_ONCE]]
        reply = httpx.post(f"{server.url}/v1/queries", json={"queries": some}, timeout=timeout_s)
        if reply.status_code >= 400:
            raise RuntimeError(f"{reply.text[:2000]}\n{server.log_text()[-4000:]}")


def wait_past(server: Server, cycle: int, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while server.status()["cycle"] < cycle and time.monotonic() < deadline:
        time.sleep(0.01)


def task_of(server: Server, rate: int, seconds: float, seed: int, **more: Any) -> dict[str, Any]:
    """What the generator does; a pure value, from which the oracle knows every reading."""
    task: dict[str, Any] = {"do": "hold_rate", "workload": "selections", "url": server.url, "looks": True}
    task |= {"table": "readings", "query": "markers"}
    return {**task, "rate": rate, "seconds": seconds, "seed": seed, "interval_s": INTERVAL_S, "connections": 2, **more}


def with_times(task: dict[str, Any]) -> dict[str, Any]:
    """The same with readings that carry their own time, from now on; one connection keeps them in order."""
    return {**task, "origin_us": round(time.time() * 1e6), "connections": 1}


def warm_up(server: Server, own_times: bool = False) -> None:
    """Compile and cache what the first cycles compile."""
    task = task_of(server, 20_000, WARM_SECONDS, WARM_SEED)
    generate(**(with_times(task) if own_times else task))
    drain(server)


@contextmanager
def loaded(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The generator runs beside the block; what it found is there after it."""
    found: dict[str, Any] = {}

    def run() -> None:
        try:
            found.update(generate(**task))
        except RuntimeError as failure:
            found["failures"] = [str(failure)]

    pushing = threading.Thread(target=run, daemon=True)
    pushing.start()
    yield found
    pushing.join()


def cycles_after(server: Server, cycle: int) -> list[dict[str, Any]]:
    """The cycles that came after one: of the last thousand."""
    reply = server.sql(f"SELECT cycle, now, rows, ms FROM penstock.cycles WHERE cycle > {cycle} ORDER BY cycle")
    names = [column["name"] for column in reply["columns"]]
    return [dict(zip(names, row, strict=True)) for row in reply["rows"]]


def cycle_figures(cycles: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Percentiles in ms. A period lasts from the NOW of one cycle to the next one's: planning, Spark's job, commit and fold.

    `job` is Spark's part alone. Only cycles that had rows count: the others wait for some.
    """
    begins = [datetime.fromisoformat(c["now"]).timestamp() * 1000 for c in cycles]
    busy = [bool(c["rows"]) for c in cycles]
    periods = sorted(
        later - earlier
        for (earlier, later), (had, has) in zip(pairwise(begins), pairwise(busy), strict=True)
        if had and has
    )
    jobs = sorted(c["ms"] for c in cycles if c["rows"] and c["ms"] is not None)
    return {
        "cycle_p50_ms": percentile(periods, 0.5),
        "cycle_p99_ms": percentile(periods, 0.99),
        "job_p50_ms": percentile(jobs, 0.5),
        "job_p99_ms": percentile(jobs, 0.99),
        "cycles": len(periods),
    }


def memory_mb(server: Server) -> float:
    soft = server.data / "tmp"
    return real_memory_mb(server.processes(), [soft / "buffers", soft / "sheets"])


def hold(server: Server, task: dict[str, Any]) -> dict[str, Any]:
    """Hold a rate: what the generator saw, what the cycles took, cores and memory at the end."""
    before = server.status()["cycle"]
    cpu, began = server.cpu_seconds(), time.monotonic()
    found = generate(**task)
    cores = (server.cpu_seconds() - cpu) / (time.monotonic() - began)
    memory = {"memory_mb": memory_mb(server), "rss_mb": server.memory_mb()}
    return {**found, **cycle_figures(cycles_after(server, before)), "cores": cores, **memory}
