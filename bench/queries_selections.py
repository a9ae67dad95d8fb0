"""How many standing selections at how many tuples a second: each rate held, on a server of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.foundations import keeps_up
from bench.queries_server import hold, named, register, set_up, task_of, warm_up
from bench.query_workload import selections
from bench.report import Report
from bench.server import Server
from bench.tables import lines_of, plot, write_table

COUNTS = (1, 10, 100, 1_000, 4_096, 10_000)
RATES = (20_000, 60_000, 100_000)
SEED = 41


def measure_selections(report: Report, seconds: float, counts: Sequence[int], rates: Sequence[int]) -> None:
    table: list[dict[str, Any]] = []
    for count in counts:
        for rate in rates:
            report.say(f"selections: {count:,} queries, {rate:,} tuples/s for {seconds:.0f} s")
            try:
                found = run(count, rate, seconds)
            except RuntimeError as failure:
                report.say(f"[bold red]selections: {count:,} queries at {rate:,}/s failed:[/bold red] {failure}")
                continue
            put(report, found, count, rate)
            table.append(line(found, count, rate))
            save(table)


def run(count: int, rate: int, seconds: float) -> dict[str, Any]:
    """Windows in time that hold 2^7..2^16 tuples at this rate."""
    with Server() as server:
        set_up(server)
        register(server, named(selections(count, SEED), rate))
        warm_up(server)
        return hold(server, task_of(server, rate, seconds, seed=1))


def put(report: Report, found: dict[str, Any], count: int, rate: int) -> None:
    name = f"{count}_queries_{rate // 1000}k"
    report.put(f"cycle_p50_ms_{name}", found["cycle_p50_ms"])
    report.put(f"cycle_p99_ms_{name}", found["cycle_p99_ms"])
    report.put(f"job_p99_ms_{name}", found["job_p99_ms"])
    report.put(f"push_to_visible_p50_ms_{name}", found["p50_ms"], found["rows"])
    report.put(f"push_to_visible_p99_ms_{name}", found["p99_ms"])
    report.put(f"backlog_cycles_{name}", backlog_cycles(found))
    report.put(f"cpu_cores_{name}", found["cores"])
    report.put(f"memory_mb_{name}", found["memory_mb"])
    report.put(f"keeps_up_{name}", float(keeps_up(found, rate)))
    if found["failures"]:
        report.say(f"[bold red]selections: refused:[/bold red] {found['failures']}")


def backlog_cycles(found: dict[str, Any]) -> float:
    """Rows that waited at the end, in cycles of usual size."""
    return float(found["backlog_rows"] / max(1, found["rows_per_cycle"]))


def line(found: dict[str, Any], count: int, rate: int) -> dict[str, Any]:
    return {
        "queries": count,
        "tuples/s": rate,
        "pushed/s": float(found["rate"]),
        "cycle p50 ms": found["cycle_p50_ms"],
        "cycle p99 ms": found["cycle_p99_ms"],
        "Spark's job p99 ms": found["job_p99_ms"],
        "visible p50 ms": found["p50_ms"],
        "visible p99 ms": found["p99_ms"],
        "backlog, cycles": backlog_cycles(found),
        "cores": found["cores"],
        "memory MB": found["memory_mb"],
        "keeps up": "yes" if keeps_up(found, rate) else "no",
    }


def save(table: Sequence[dict[str, Any]]) -> None:
    write_table("queries_selections", "Standing selections, windows of 2^7..2^16 tuples, 1..8 factors", table)
    quantities = ("cycle p99 ms", "visible p99 ms", "memory MB")
    plot("queries_selections", {q: lines_of(table, "tuples/s", "queries", q) for q in quantities}, "queries", log="xy")
