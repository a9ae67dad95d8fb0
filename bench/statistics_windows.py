"""1, 10 and 100 sliding averages at once: ours, all subscribed to, and Spark's own, a streaming query each, as fast as they go."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from bench.foundations import drain
from bench.joins_peers import HERE, run_peer
from bench.queries_server import register
from bench.report import Report
from bench.server import Server
from bench.statistics_aggregates import SEED, push, set_up
from bench.statistics_readers import Readers
from bench.statistics_workload import SENSORS, as_batch, readings
from bench.tables import lines_of, plot, write_table

COUNTS = (1, 10, 100)
PER_SECOND = 60_000
"""Readings in a second of their own time; a push, and a file of Spark's, has a second of them."""
OURS_S, SPARK_S, FILES_PER_BATCH = 120, 200, 5
PANES = 10
MOST_WAIT_S = 600.0


def windows(count: int) -> list[tuple[int, int]]:
    """(width, step) in seconds: ten panes overlap at any time, widths of 10 s to about a quarter of an hour."""
    steps = np.unique(np.linspace(1, 100, count).astype(int)).tolist()
    return [(PANES * step, step) for step in steps][:count]


def measure_windows(report: Report, scale: float, counts: Sequence[int] = COUNTS) -> None:
    table: list[dict[str, Any]] = []
    spark = measure_spark(report, scale, counts)
    for count in counts:
        report.say(f"windows: {count} sliding averages, each with a subscriber")
        with Server() as server:
            ours = our_rate(server, count, max(10, int(OURS_S * scale)))
        report.put(f"windows_rows_per_s_{count}", ours["rows_per_s"], ours["rows"])
        for text in ours["errors"][:3]:
            report.say(f"[bold red]windows:[/bold red] {text}")
        theirs = spark.get(count)
        if theirs is not None:
            report.put(f"spark_windows_rows_per_s_{count}", theirs)
        ratio = ours["rows_per_s"] / theirs if theirs else None
        report.put(f"ratio_spark_windows_{count}", ratio)
        table.append(
            {"averages": count, "ours, rows/s": ours["rows_per_s"], "Spark, rows/s": theirs, "times": ratio}
            | {"our events": ours["events"], "errors": len(ours["errors"])}
        )
    write_table("statistics_windows", f"Sliding averages at once, {SENSORS} sensors, {PANES} panes each", table)
    rates = [
        {"who": who, "averages": row["averages"], "rows/s": row[f"{who}, rows/s"]}
        for who in ("ours", "Spark")
        for row in table
    ]
    plot("statistics_windows", {"rows/s": lines_of(rates, "who", "averages", "rows/s")}, "averages", log="xy")


def second_of(origin_us: int, second: int) -> pa.RecordBatch:
    """The readings of one second, evenly spread."""
    us = origin_us + second * 1_000_000 + np.arange(PER_SECOND) * 1_000_000 // PER_SECOND
    return as_batch(readings(SEED, second, PER_SECOND), us, 0)


def sql_of(width: int, step: int) -> str:
    window = f"BEGIN (NOW - {width} SECONDS) END (NOW)"
    return (
        "SELECT sensor_id, window_start, AVG(b) AS v FROM readings"
        f" GROUP BY sensor_id, SLIDE({width} SECONDS, {step} SECONDS) {window}"
    )


def our_rate(server: Server, count: int, seconds: int) -> dict[str, Any]:
    """Rows/s from the first push until every row is committed and every subscriber was told of the last cycle that had some."""
    set_up(server)
    queries = [(f"q{number}", sql_of(*asked)) for number, asked in enumerate(windows(count))]
    register(server, queries)
    origin_us = (int(time.time()) - 3_600) * 1_000_000
    warm = max(5, seconds // 10)
    with Readers(server.url, [name for name, _ in queries]) as readers:
        for second in range(warm):
            push(server, second_of(origin_us, second))
        drain(server)
        began = time.monotonic()
        for second in range(warm, warm + seconds):
            push(server, second_of(origin_us, second))
        drain(server)
        last = newest_with_rows(server)
        deadline = time.monotonic() + MOST_WAIT_S
        while min(readers.newest.get(name, 0) for name, _ in queries) < last and time.monotonic() < deadline:
            time.sleep(0.02)
        took = time.monotonic() - began
    rows = seconds * PER_SECOND
    errors = [
        *readers.errors,
        *(["a subscriber was never told of the last rows"] if time.monotonic() > deadline else []),
    ]
    return {"rows_per_s": rows / took, "rows": rows, "events": readers.events, "errors": errors}


def newest_with_rows(server: Server) -> int:
    reply = server.sql("SELECT MAX(cycle) AS c FROM penstock.cycles WHERE rows > 0")
    return int(reply["rows"][0][0])


def measure_spark(report: Report, scale: float, counts: Sequence[int]) -> dict[int, float]:
    """Rows/s by number of averages; nothing where Spark failed, which is said."""
    with tempfile.TemporaryDirectory(prefix="penstock-peers-") as temporary:
        folder = Path(temporary) / "in"
        folder.mkdir()
        seconds = max(20, int(SPARK_S * scale))
        for second in range(seconds):
            batch = second_of(1_700_000_000_000_000, second).select(["sensor_id", "b", "ts"])
            pa.parquet.write_table(pa.Table.from_batches([batch]), folder / f"{second:05d}.parquet")
        task = {
            "folder": str(folder),
            "windows": windows(max(counts)),
            "counts": list(counts),
            "files_per_batch": FILES_PER_BATCH,
            "rows": seconds * PER_SECOND,
            "hold_s": max(5.0, 60.0 * scale),
        }
        path = Path(temporary) / "task.json"
        path.write_text(json.dumps(task))
        command = [sys.executable, str(HERE / "peers" / "spark_windows.py"), str(path)]
        found = run_peer(report, "spark, a sliding average each", command)
    if found is None:
        return {}
    for each in found["levels"]:
        for text in each["broken"][:3]:
            report.say(f"[bold red]spark windows, {each['queries']}:[/bold red] {text}")
    report.put("spark_windows_peak_memory_mb", found["peak_mb"])
    return {each["queries"]: each["rows_per_s"] for each in found["levels"]}
