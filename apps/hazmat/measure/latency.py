"""`python -m apps.hazmat.measure.latency`: the time from a burst that is pushed to the verdict that includes it, through a server.

Four bursts a second, one per detector, of boxes that stay ten seconds. The figures go to bench/results/hazmat.json, beside the others.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from apps.hazmat.__main__ import connected, set_up, simulate_background
from apps.hazmat.belt import SIDES, Belt, bursts
from apps.hazmat.statements import Site
from bench.report import Report, command_of, commit_now
from penstock.client import Connection
from penstock.errors import PenstockError

BOX_S = 10
SETTLE_S = 15
"""The first cycles load the functions into the workers; their bursts do not count."""


class Arrivals:
    """When the verdict about a box included so many live seconds first."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._first: dict[tuple[str, int], float] = {}
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            with Connection(self._url) as connection:
                for change in connection.subscribe("verdicts", changes=True):
                    now = time.monotonic()
                    for row in change.rows:
                        if row.get("op", "+") == "+" and row["live_s"] is not None:
                            self._first.setdefault((row["box"], round(row["live_s"])), now)
        except PenstockError:
            return  # the server has stopped

    def after(self, box: str, live_s: int) -> float | None:
        """The first time at which a verdict about the box had this much or more."""
        found = [at for (name, live), at in list(self._first.items()) if name == box and live >= live_s]
        return min(found, default=None)


def push_bursts(connection: Connection, seconds: int, run: str) -> list[tuple[str, int, float]]:
    """Push bursts as detectors would; of each the box, its live seconds with it, and when it was pushed."""
    belt, sent = Belt(scenario="threats", period_s=BOX_S + 2), []
    began = time.monotonic()
    for number in range(seconds * len(SIDES)):
        time.sleep(max(began + number / len(SIDES) - time.monotonic(), 0.0))
        second, side = divmod(number, len(SIDES))
        counts = bursts(belt, second // BOX_S)[second % BOX_S, side]
        name = f"{run} {second // BOX_S}"
        row = {
            "detector": SIDES[side],
            "box": name,
            "live_s": 1.0,
            "total": int(counts.sum()),
            "counts": counts.tolist(),
        }
        at = time.monotonic()
        connection.push("detectors", [row])
        sent.append((name, second % BOX_S * len(SIDES) + side + 1, at))
    return sent


def measure_latency(seconds: int) -> list[float]:
    """Start a server, push, and say how many milliseconds each burst took whose verdict was seen."""
    with tempfile.TemporaryDirectory(prefix="penstock-hazmat-", ignore_cleanup_errors=True) as folder:
        site = Site(str(simulate_background(Path(folder) / "background.json", 1)), max_s=float(BOX_S))
        with connected("", Path(folder) / "data", Console(stderr=True)) as connection:
            set_up(connection, site, simulated=False)
            arrivals = Arrivals(connection.url)
            push_bursts(connection, SETTLE_S, "settle")
            sent = push_bursts(connection, seconds, "pushed")
            time.sleep(5.0)
    waits: list[float] = []
    for box, live_s, at in sent:
        arrived = arrivals.after(box, live_s)
        if arrived is not None and arrived >= at:
            waits.append(1000.0 * (arrived - at))
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    report = Report("hazmat", "decisions about boxes from real gamma spectra", keep=True)
    loads, waits = [], []
    for _ in range(options.runs):
        loads.append(round(os.getloadavg()[0], 2))
        waits.append(measure_latency(options.seconds))
    origin: dict[str, Any] = {
        "commit": commit_now(),
        "command": command_of("apps.hazmat.measure.latency"),
        "load_before": loads,
    }
    for percent in (50, 99):
        found = [float(np.percentile(each, percent)) if each else None for each in waits]
        report.put_runs(f"burst_to_verdict_p{percent}_ms", found, **origin)
    report.put_runs("burst_to_verdict_bursts", list(map(len, waits)), **origin)
    report.save()


if __name__ == "__main__":
    main()
