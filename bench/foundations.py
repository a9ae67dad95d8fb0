"""Foundations: from push to answer, sustained rate, ingest by format, start-up, memory and files."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from bench.report import Report
from bench.server import MemoryWatch, Server

SENSORS = 1_000
QUERIES = (1, 100)
RATES = "1000,10000,60000"
SETTLE_S, IDLE_S = 12.0, 20.0  # until nothing is in the marker's window, then so long
SUSTAINED_RATES = (200_000, 310_000, 400_000, 500_000, 650_000, 800_000)
"""Tried one after the other, until one is too high."""
TABLE = (
    "CREATE TABLE readings (sensor_id INT PRIMARY KEY, site TEXT,"
    " r STREAM (value DOUBLE, quality INT, level DOUBLE, marker DOUBLE))"
)
MARKER_QUERY = "CREATE QUERY markers AS SELECT marker FROM readings WHERE marker > 0 BEGIN (NOW - 10 SECONDS) END (NOW)"


def generate(**task: Any) -> dict[str, Any]:
    """Run the generator in a process of its own."""
    return run_apart("bench.generator", json.dumps(task))


def run_apart(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module of the bench in a process of its own; the JSON object that it prints."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def set_up(server: Server, queries: int) -> None:
    """One table with a thousand sensors, the marker query and further alarms."""
    server.sql(TABLE)
    rows = ", ".join(f"({i}, 'site {i % 20}', NULL)" for i in range(SENSORS))
    server.sql(f"INSERT INTO readings VALUES {rows}")
    server.sql(MARKER_QUERY)
    add_queries(server, 1, queries)


def add_queries(server: Server, have: int, want: int) -> None:
    for number in range(have, want):
        server.sql(
            f"CREATE QUERY alarm_{number} AS SELECT sensor_id, value, ts FROM readings"
            f" WHERE value > {90 + number % 10} AND quality < {number} AND site = 'site {number % 20}'"
            " BEGIN (NOW - 1 MINUTE) END (NOW)"
        )


class Foundations:
    """The measures of the foundations, in one run on one machine."""

    PARTS = ("ingest", "latency", "sustained", "memory")

    def __init__(self, seconds: float, memory_minutes: float, only: str, rates: str) -> None:
        self.rates = [int(r) for r in (rates or RATES).split(",")]
        self.seconds = seconds
        self.memory_minutes = memory_minutes
        self.only = set(filter(None, only.split(",")))
        self.report = Report(
            "foundations", f"each rate held for {seconds:.0f} s, {SENSORS} sensors", keep=bool(self.only)
        )

    def run(self) -> None:
        parts = {
            "ingest": self.measure_ingest,
            "latency": self.measure_latency,
            "sustained": self.measure_sustained,
            "memory": self.measure_memory,
        }
        for name, part in parts.items():
            if not self.only or name in self.only:
                part()
                self.report.save()
        self.report.show()

    def measure_ingest(self) -> None:
        with Server() as server:
            self.report.put("server_ready_s_first", server.ready_s)
            set_up(server, 1)
            for form, batch in (("json", 2_000), ("ndjson", 2_000), ("csv", 2_000), ("arrow", 50_000)):
                self.report.say(f"ingest of {form} in batches of {batch}")
                found = generate(
                    do="ingest_rate",
                    url=server.url,
                    table="readings",
                    format=form,
                    batch=batch,
                    sensors=SENSORS,
                    seconds=min(20.0, self.seconds),
                )
                self.report.put(f"ingest_{form}_rows_per_s", found["rate"], found["rows"])
                drain(server)
            self.report.put("files_per_table", server.files())
        with Server() as again:
            self.report.put("server_ready_s", again.ready_s)

    def measure_latency(self) -> None:
        floor = run_apart("bench.task_floor")
        self.report.put("python_task_floor_ms", floor["task_ms"])
        self.report.put("python_job_floor_ms", floor["job_ms"])
        for queries in QUERIES:
            with Server() as server:
                set_up(server, queries)
                warm_up(server)
                if queries == QUERIES[0]:
                    self.report.put("idle_cpu_cores", idle_cores(server))
                for rate in self.rates:
                    self.report.say(f"{rate} rows/s with {queries} standing queries, {self.seconds:.0f} s")
                    found, cpu, memory = self.hold(server, rate, seed=rate // 1000)
                    name = f"{rate // 1000}k" if queries == 1 else f"{rate // 1000}k_{queries}_queries"
                    self.report.put(f"push_to_visible_p50_ms_{name}", found["p50_ms"], found["rows"])
                    self.report.put(f"push_to_visible_p99_ms_{name}", found["p99_ms"])
                    self.report.put(f"cycle_p50_ms_{name}", found["cycle_ms_p50"])
                    self.report.put(f"cycle_p99_ms_{name}", found["cycle_ms_p99"])
                    self.report.put(f"cpu_cores_{name}", cpu)
                    self.report.put(f"memory_mb_{name}", memory)
                    self.report.put(f"keeps_up_{name}", float(keeps_up(found, rate)))
                    drain(server)

    def hold(
        self, server: Server, rate: int, seed: int, seconds: float | None = None
    ) -> tuple[dict[str, Any], float, float]:
        cpu, began = server.cpu_seconds(), time.monotonic()
        found = generate(
            do="hold_rate",
            url=server.url,
            table="readings",
            query="markers",
            rate=rate,
            seconds=seconds or self.seconds,
            interval_s=0.05 if rate <= 100_000 else 0.1,
            sensors=SENSORS,
            seed=seed,
            connections=2,
        )
        elapsed = time.monotonic() - began
        if found["failures"]:
            self.report.say(f"refused: {found['failures']}")
        return found, (server.cpu_seconds() - cpu) / elapsed, server.memory_mb()

    def measure_sustained(self) -> None:
        best = 0.0
        with Server() as server:
            set_up(server, 1)
            warm_up(server)
            for step, rate in enumerate(SUSTAINED_RATES):
                self.report.say(f"{rate} rows/s with one standing query, {self.seconds:.0f} s")
                found, _, _ = self.hold(server, rate, seed=500 + step)
                good = keeps_up(found, rate)
                self.report.say(
                    f"  {found['rate']:.0f} rows/s pushed, {found['backlog_rows']} behind,"
                    f" p50 {found['p50_ms']:.0f} ms: {'kept up' if good else 'fell behind'}"
                )
                if not good:
                    break
                best = found["rate"]
                drain(server)
            self.report.put("sustained_tuples_per_s_1_query", best)
            self.report.put("files_per_table_sustained", server.files())

    def measure_memory(self) -> None:
        if not self.memory_minutes:
            return
        with Server() as server:
            set_up(server, 1)
            warm_up(server)
            self.report.say(f"memory over {self.memory_minutes:.0f} minutes at 10 000 rows/s")
            with MemoryWatch(server) as watch:
                self.hold(server, 10_000, seed=900, seconds=self.memory_minutes * 60)
            after = min(180.0, self.memory_minutes * 60 * 0.3)
            self.report.put("memory_slope_mb_per_min", watch.slope_mb_per_min(after))
            self.report.put("memory_mb_end", watch.samples[-1][1])
            self.report.plot_line("memory", [t / 60 for t, _ in watch.samples], [m for _, m in watch.samples])


def keeps_up(found: dict[str, Any], rate: int) -> bool:
    """The rate was reached, every marker came back, and at most two cycles' rows were waiting at the end."""
    came_back = found["markers_seen"] == found["markers"]
    return came_back and found["rate"] >= 0.97 * rate and found["backlog_rows"] <= 2 * found["rows_per_cycle"]


def idle_cores(server: Server) -> float:
    """The processor time of a server without work, as a share of one processor."""
    time.sleep(SETTLE_S)
    cpu, began = server.cpu_seconds(), time.monotonic()
    time.sleep(IDLE_S)
    return (server.cpu_seconds() - cpu) / (time.monotonic() - began)


def warm_up(server: Server) -> None:
    """Compile and cache what the first cycles compile."""
    generate(
        do="hold_rate", url=server.url, table="readings", query="markers", rate=20_000, seconds=8, interval_s=0.05,
        sensors=SENSORS, seed=999, connections=2,
    )  # fmt: skip
    drain(server)


def drain(server: Server) -> None:
    deadline = time.monotonic() + 120
    while server.status()["rows_behind"] > 0 and time.monotonic() < deadline:
        time.sleep(0.2)
