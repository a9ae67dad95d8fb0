"""What one more standing query takes: memory of all processes with 10 000 queries less that with one, after the same load."""

from __future__ import annotations

from bench.queries_server import hold, named, register, set_up, task_of, warm_up
from bench.query_workload import selections
from bench.report import Report
from bench.server import Server

WINDOW_TUPLES = 2**16
SEED = 42


def measure_memory(report: Report, seconds: float, count: int, rate: int) -> None:
    sizes = {}
    for queries in (1, count):
        report.say(f"memory: {queries:,} queries with windows of 2^16 tuples, {rate:,} tuples/s for {seconds:.0f} s")
        with Server() as server:
            set_up(server)
            register(server, named(selections(queries, SEED, window_tuples=WINDOW_TUPLES), rate))
            warm_up(server)
            found = hold(server, task_of(server, rate, seconds, seed=2))
        sizes[queries] = found
        report.put(f"window_65536_memory_mb_{queries}_queries", found["memory_mb"], found["rows"])
        report.put(f"window_65536_backlog_rows_{queries}_queries", found["backlog_rows"])
    for key, kind in (("kb_per_query", "memory_mb"), ("kb_per_query_rss", "rss_mb")):
        report.put(key, (sizes[count][kind] - sizes[1][kind]) * 1024 / count)
