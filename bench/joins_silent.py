"""One of three streams falls silent: memory stays where it is, and when the stream comes back no result is missing."""

from __future__ import annotations

import threading
import time
from typing import Any

from bench import join_workload as workload
from bench.join_counts import count_equal
from bench.join_load import stream_rows
from bench.joins_ours import load, matched, set_up, warm_up
from bench.report import Report
from bench.server import MemoryWatch, Server

PER_STREAM, KEYS = 2_000, 20_000
# Shares of the run, 10 minutes: silent after one, memory looked at from the third on, back with old times after nine.
SILENT, LOOKED_AT, BACK = 0.1, 0.3, 0.9


def measure_silent(report: Report, minutes: float) -> None:
    if not minutes:
        return
    seconds = minutes * 60
    task = {"do": "equal", "per_stream": PER_STREAM, "seconds": seconds, "keys": KEYS, "seed": 30, "interval_s": 0.1}
    task |= {"silent_stream": 2, "silent_from": SILENT * seconds, "silent_until": BACK * seconds}
    wanted = count(task)
    with Server() as server:
        warm_up(server)
        set_up(server, "q", "silent")
        report.say(f"silent: {minutes:.0f} minutes at 3 x {PER_STREAM} tuples/s, one stream speaks for a tenth of it")
        found: dict[str, Any] = {}
        pushing = threading.Thread(target=lambda: found.update(load(**task, url=server.url, prefix="q")))
        pushing.start()
        with MemoryWatch(server) as watch:
            time.sleep(BACK * seconds - 1)
        pushing.join()
        deadline = time.monotonic() + 300
        while matched(server, "silent") < wanted and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(2)
        results = matched(server, "silent")
    report.put("silent_stream_slope_mb_per_min", watch.slope_mb_per_min(LOOKED_AT * seconds), found["rows"])
    report.put("silent_stream_memory_mb", watch.samples[-1][1])
    report.put("silent_stream_results", results)
    report.put("silent_stream_expected", wanted)
    report.plot_line("silent", [t / 60 for t, _ in watch.samples], [m for _, m in watch.samples])
    if results != wanted or found["failures"]:
        report.say(f"[bold red]silent: {results} results, {wanted} are right; refused: {found['failures']}")


def count(task: dict[str, Any]) -> int:
    streams = [stream_rows(task, i) for i in range(workload.STREAMS)]
    return count_equal([s["us"] for s in streams], [s["k"] for s in streams], workload.WINDOW_S * 1_000_000)
