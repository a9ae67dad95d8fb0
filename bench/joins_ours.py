"""Our pipeline on the workload that peers are compared on: how fast, at what cost, and how soon at 60 000 rows/s.

`python -m bench.joins_ours` measures only how fast, several times in one server; it needs nothing of the sources but a server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import httpx

from bench import join_workload as workload
from bench.report import Report
from bench.server import MemoryWatch, Server

CYCLE_MAX_ROWS = 300_000
WARM_SECONDS = 60
PER_STREAM = 20_000
KEYS_FROM = 1_000_000_000
"""Keys of markers begin here; the workload's keys are below."""
TIMES = 3


def measure_ours(report: Report, seconds: int) -> float:
    """Rows/s from the first row in to the last result committed. The workload's first `seconds` are pushed."""
    wanted = workload.expected(seconds)
    with Server(cycle_max_rows=CYCLE_MAX_ROWS) as server:
        warm_up(server)
        set_up(server, "s", "triples")
        report.say(f"ours: {seconds * workload.PER_SECOND:,} rows through the server")
        cpu = server.cpu_seconds()
        with MemoryWatch(server) as watch:
            took = push_and_wait(server, seconds, "s", "triples", wanted)
        cpu = server.cpu_seconds() - cpu
        time.sleep(1)  # a result too many would come now
        results = matched(server, "triples")
    rows = seconds * workload.PER_SECOND
    report.put("results", results)
    if results != wanted:
        raise RuntimeError(f"ours: {results} results, {wanted} are right")
    report.put("ours_rows_per_s", rows / took, rows)
    report.put("ours_cpu_s_per_million_rows", cpu / rows * 1e6)
    report.put("ours_peak_memory_mb", max(size for _, size in watch.samples))
    return rows / took


def measure_rate(report: Report, times: int = TIMES) -> None:
    """The median of rows/s over the whole workload, each time on tables of its own."""
    rates = []
    with Server(cycle_max_rows=CYCLE_MAX_ROWS) as server:
        warm_up(server)
        for turn in range(times):
            prefix, query = f"turn{turn}_", f"triples{turn}"
            set_up(server, prefix, query)
            took = push_and_wait(server, workload.SECONDS, prefix, query, workload.EXPECTED)
            rates.append(workload.ROWS / took)
            report.say(f"ours: {rates[-1]:,.0f} rows/s")
            server.sql(f"DROP QUERY {query}")
    report.put_runs("ours_rows_per_s", rates)
    report.rows += times * workload.ROWS


def measure_latency(report: Report, seconds: float) -> None:
    """From the push of a tuple to the arrival of the result that it completes, at 60 000 rows/s over three streams."""
    with Server(cycle_max_rows=CYCLE_MAX_ROWS) as server:
        warm_up(server)
        set_up(server, "s", "triples")
        server.sql(
            workload.query("markers", "s", f" AND a.k >= {KEYS_FROM} AND b.k >= {KEYS_FROM} AND c.k >= {KEYS_FROM}")
        )
        report.say(f"ours: {3 * PER_STREAM:,} rows/s for {seconds:.0f} s")
        cpu, began = server.cpu_seconds(), time.monotonic()
        found = load(do="equal", url=server.url, prefix="s", query="markers", per_stream=PER_STREAM, seconds=seconds,
                     keys=workload.KEYS, keys_from=KEYS_FROM, seed=7, interval_s=0.05)  # fmt: skip
        cpu = (server.cpu_seconds() - cpu) / (time.monotonic() - began)
        if found["failures"]:
            report.say(f"refused: {found['failures']}")
        report.put("push_to_result_p50_ms_60k", found["p50_ms"], found["rows"])
        report.put("push_to_result_p99_ms_60k", found["p99_ms"])
        report.put("cpu_cores_60k", cpu)
        report.put("keeps_up_60k", float(keeps_up(found, 3 * PER_STREAM) and found["seen"] == found["markers"]))


def load(**task: Any) -> dict[str, Any]:
    """Run the load in a process of its own."""
    command = [sys.executable, "-m", "bench.join_load", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def keeps_up(found: dict[str, Any], rate: float) -> bool:
    """The rate was reached, and towards the end at most two cycles' rows were waiting."""
    return bool(found["rate"] >= 0.97 * rate and found["backlog_rows"] <= 2 * found["rows_per_cycle"])


def set_up(server: Server, prefix: str, query: str) -> None:
    for number, table in enumerate(workload.tables(prefix)):
        server.sql(table)
        server.sql(f"INSERT INTO {prefix}{number} VALUES (1, NULL)")
    server.sql(workload.query(query, prefix))
    wait_until_running(server, query)


def warm_up(server: Server) -> None:
    """The whole workload once, on tables of its own: peers are timed without start-up and after the same warm-up."""
    set_up(server, "warm", "warming")
    push_and_wait(server, WARM_SECONDS, "warm", "warming", workload.expected(WARM_SECONDS))
    server.sql("DROP QUERY warming")


def push_and_wait(server: Server, seconds: int, prefix: str, query: str, wanted: int) -> float:
    """Seconds from the first row in to the last result committed."""
    command = [sys.executable, "-m", "bench.join_workload", server.url, str(seconds), prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pusher:
        deadline = time.monotonic() + 60 + 20 * seconds
        while (found := matched(server, query)) < wanted:
            if time.monotonic() > deadline or pusher.poll() not in (None, 0):
                pusher.kill()
                raise RuntimeError(f"{query}: {found} results of {wanted}")
            # Asking takes from the same two cores: often only where the end is near.
            time.sleep(0.02 if found > 0.9 * wanted else 0.2)
        ended = time.time()
        assert pusher.stdout is not None
        return ended - float(json.loads(pusher.stdout.read())["began"])


def wait_until_running(server: Server, query: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if httpx.get(f"{server.url}/v1/queries/{query}", timeout=60).json().get("state") == "RUNNING":
            return
        time.sleep(0.05)


def matched(server: Server, query: str) -> int:
    """How many results the query has, all of them committed."""
    known = httpx.get(f"{server.url}/v1/queries/{query}", timeout=60).json()
    if known.get("error"):
        raise RuntimeError(f"{query}: {known['error']}")
    return int(known["matched"])


if __name__ == "__main__":
    found = Report("joins_ours", "60 s of three streams")
    measure_rate(found)
    found.save()
