"""What subscribers cost the cycle: `python -m bench.followed`, 1 000 aggregates with a subscriber each, and the same without.

Aggregates and load are those of `python -m bench statistics --only aggregates`. Both sides have a new server for each run and
take turns. The command ends with 1 where the cycle's p99 with subscribers is more than 1.1 times that without, or where a
subscriber was refused or lost. Results: bench/results/followed.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.comparison import Comparison, Measure, turns, write_lines
from bench.foundations import drain, generate
from bench.queries_selections import backlog_cycles
from bench.queries_server import hold, register
from bench.report import Report
from bench.server import Server
from bench.statistics_aggregates import RATE, SEED, push_history, set_up, tasks
from bench.statistics_readers import Readers
from bench.statistics_workload import aggregates

SIDES = ("alone", "followed")
COUNT, PAIRS, SECONDS = 1_000, 2, 15.0
TOLERANCE = 0.1
FIXED_S = 60.0
"""About how long a run takes on two quiet cores, without the rate that it holds."""
MEASURES = (Measure("cycle_p50_ms"), Measure("cycle_p99_ms"))
"""The aim is about the p99."""
NOBODY = {"events": 0, "silent": 0, "errors": 0}


def compare(report: Report, count: int, rate: int, pairs: int, seconds: float) -> list[Comparison]:
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    left = 2 * pairs
    for pair, side in turns(SIDES, pairs):
        report.say(f"{side}: pair {pair + 1} of {pairs}; about {left * (FIXED_S + seconds) / 60:.0f} min left")
        found = run(count, rate, seconds, followed=side == "followed")
        report.say(f"  {figures(found)}")
        runs[side].append(found)
        left -= 1
    for side, all_found in runs.items():
        for key in figures(all_found[0]):
            report.values[f"{side} {key}"] = [figures(found)[key] for found in all_found]
    compared = [Comparison(m, *([found[m.name] for found in runs[side]] for side in SIDES)) for m in MEASURES]
    for one in compared:
        report.put(f"ratio {one.measure.name}", one.ratio)
    report.put("subscribers_errors", sum(found["errors"] for found in runs["followed"]))
    report.save()
    return compared


def run(count: int, rate: int, seconds: float, followed: bool, asks_per_s: float = 0.0) -> dict[str, Any]:
    """One server: history, a warm-up with the subscribers already there, and the load.

    `asks_per_s` is how often a random query is asked besides.
    """
    with Server() as server:
        set_up(server)
        names = [f"q{number}" for number in range(count)]
        register(server, list(zip(names, (chosen.sql() for chosen in aggregates(count, SEED)), strict=True)))
        origin_us = int(time.time()) * 1_000_000
        push_history(server, origin_us)
        warm, load = tasks(server, rate, seconds, origin_us)
        with followers(server, names if followed else ()) as heard:
            generate(**warm)
            drain(server)
            with Readers(server.url, (), names, asks_per_s) as readers:
                found = hold(server, load)
        if found["failures"] or readers.errors:
            raise RuntimeError(f"refused: {found['failures']} {readers.errors[:3]}\n{server.log_tail()}")
    return {**found, **heard, "invoked_ms": sorted(readers.invoked_ms)}


@contextmanager
def followers(server: Server, names: Sequence[str]) -> Iterator[dict[str, int]]:
    """A subscriber for each query beside the block; what they heard is there after it."""
    heard = dict(NOBODY)
    if not names:
        yield heard
        return
    task = json.dumps({"port": server.port, "names": list(names)})
    command = [sys.executable, "-m", "bench.followers", task]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"not all subscribers were connected\n{server.log_tail()}")
        try:
            yield heard
        finally:
            process.stdin.close()
        heard |= json.loads(process.stdout.read())


def figures(found: dict[str, Any]) -> dict[str, float]:
    """What is kept of a run. A marker whose subscriber was not told within 20 s has no push to visible."""
    kept = {
        key: found[key] for key in ("cycle_p50_ms", "cycle_p99_ms", "cycles", "cores", "events", "silent", "errors")
    }
    kept |= {f"push_to_visible_{key}": found[key] for key in ("p50_ms", "p99_ms")}
    return {key: round(float(value), 2) for key, value in {**kept, "backlog_cycles": backlog_cycles(found)}.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.followed", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the rate is held")
    parser.add_argument("--count", type=int, default=COUNT, help="aggregates, each with a subscriber")
    parser.add_argument("--rate", type=int, default=RATE, help="rows/s")
    options = parser.parse_args()
    title = (
        f"{options.count} aggregates at {options.rate} rows/s, held for {options.seconds:g} s, {options.pairs} pairs"
    )
    report = Report("followed", title)
    found = compare(report, options.count, options.rate, options.pairs, options.seconds)
    write_lines("followed", title, [one.line(SIDES, TOLERANCE) for one in found])
    p99 = found[-1]
    if not p99.measured or p99.is_worse(TOLERANCE) or report.values["subscribers_errors"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
