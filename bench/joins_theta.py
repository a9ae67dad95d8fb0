"""A three-way join without any equality: points of three streams near each other in space and time, at 3 x 1 000 tuples/s."""

from __future__ import annotations

import time
from typing import Any

from bench.join_counts import count_near
from bench.join_load import stream_rows
from bench.join_workload import STREAMS
from bench.joins_ours import keeps_up, load, matched, wait_until_running
from bench.report import Report
from bench.server import Server

PER_STREAM, WINDOW_S, SIDE, DISTANCE = 1_000, 10, 1_000.0, 5.0


def measure_theta(report: Report, seconds: float) -> None:
    """Whether it keeps up: at most two cycles' rows wait at the end, and the results are those of brute force."""
    task = {"do": "near", "per_stream": PER_STREAM, "seconds": seconds, "side": SIDE, "seed": 20, "interval_s": 0.05}
    report.say("theta: counting by brute force")
    wanted = count(task)
    with Server() as server:
        set_up(server, "warm", "warming")
        load(**{**task, "seconds": 5, "seed": 21, "url": server.url, "prefix": "warm"})
        server.sql("DROP QUERY warming")
        set_up(server, "p", "near")
        report.say(f"theta: 3 x {PER_STREAM} tuples/s, window {WINDOW_S} s, for {seconds:.0f} s")
        cpu, began = server.cpu_seconds(), time.monotonic()
        found = load(**task, url=server.url, prefix="p")
        cpu = (server.cpu_seconds() - cpu) / (time.monotonic() - began)
        deadline = time.monotonic() + 60
        while server.status()["rows_behind"] and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        results = matched(server, "near")
    good = keeps_up(found, 3 * PER_STREAM) and results == wanted
    report.put("theta_keeps_up", float(good), found["rows"])
    report.put("theta_results", results)
    report.put("theta_expected", wanted)
    report.put("theta_backlog_rows", found["backlog_rows"])
    report.put("theta_rows_per_cycle", found["rows_per_cycle"])
    report.put("theta_cycle_p50_ms", found["cycle_ms_p50"])
    report.put("theta_cycle_p99_ms", found["cycle_ms_p99"])
    report.put("theta_cpu_cores", cpu)
    if results != wanted or found["failures"]:
        report.say(f"[bold red]theta: {results} results, {wanted} are right; refused: {found['failures']}")


def count(task: dict[str, Any]) -> int:
    streams = [stream_rows(task, i) for i in range(STREAMS)]
    ts, x, y = ([s[name] for s in streams] for name in ("us", "x", "y"))
    return count_near(ts, x, y, WINDOW_S * 1_000_000, DISTANCE)


def set_up(server: Server, prefix: str, query: str) -> None:
    for number in range(STREAMS):
        server.sql(
            f"CREATE TABLE {prefix}{number} (id INT PRIMARY KEY, r STREAM (x DOUBLE, y DOUBLE))"
            " WITH (time = 'valid', out_of_order = 'accept')"
        )
        server.sql(f"INSERT INTO {prefix}{number} VALUES (1, NULL)")
    near = " AND ".join(
        f"sqrt(({i}.x - {j}.x) * ({i}.x - {j}.x) + ({i}.y - {j}.y) * ({i}.y - {j}.y)) < {DISTANCE}"
        for i, j in ("ab", "bc", "ac")
    )
    server.sql(
        f"CREATE QUERY {query} AS SELECT a.x, a.y, a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts"
        f" FROM {prefix}0 a, {prefix}1 b, {prefix}2 c WINDOW = {WINDOW_S} SECONDS WHERE {near}"
    )
    wait_until_running(server, query)
