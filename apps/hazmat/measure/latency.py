"""`python -m apps.hazmat.measure.latency`: the time from a burst that is pushed to the verdict that includes it, through a server.

Four bursts a second, one per detector, of boxes that stay ten seconds. The figures go to bench/results/hazmat.json, beside the others.
"""

from __future__ import annotations

import argparse
import math
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
PATIENCE_S = 60.0
"""A burst that no verdict includes so long after the last push is missing, and took infinitely long."""
Sent = tuple[str, int, float]
"""A burst: its box, the live seconds of that box with it, and when it was pushed."""


class Arrivals:
    """When the verdict about a box included so many live seconds first."""

    def __init__(self) -> None:
        self.problem = ""
        """Why no more verdicts come, if so."""
        self._first: dict[tuple[str, int], float] = {}
        self._changed = threading.Condition()

    def start(self, url: str) -> None:
        threading.Thread(target=self._follow, args=(url,), daemon=True).start()

    def take(self, rows: list[dict[str, Any]], now: float) -> None:
        with self._changed:
            for row in rows:
                if row.get("op", "+") == "+" and row["live_s"] is not None:
                    self._first.setdefault((row["box"], round(row["live_s"])), now)
            self._changed.notify_all()

    def after(self, box: str, live_s: int) -> float | None:
        """The first time at which a verdict about the box had this much or more."""
        with self._changed:
            found = [at for (name, live), at in self._first.items() if name == box and live >= live_s]
        return min(found, default=None)

    def wait(self, sent: list[Sent], patience_s: float) -> bool:
        """Wait until verdicts include all these bursts; whether they do."""
        deadline = time.monotonic() + patience_s
        for box, live_s, _ in sent:
            while self.after(box, live_s) is None:
                with self._changed:
                    if not self._changed.wait(max(deadline - time.monotonic(), 0.0)):
                        return False
        return True

    def waits_ms(self, sent: list[Sent]) -> list[float]:
        """How long each burst took; infinite where no verdict includes it."""
        arrived = [self.after(box, live_s) for box, live_s, _ in sent]
        return [math.inf if a is None else 1000.0 * (a - at) for a, (_, _, at) in zip(arrived, sent, strict=True)]

    def _follow(self, url: str) -> None:
        try:
            with Connection(url) as connection:
                for change in connection.subscribe("verdicts", changes=True):
                    self.take(change.rows, time.monotonic())
        except PenstockError as problem:
            self.problem = problem.render()


def percentile(waits: list[float], percent: int) -> float | None:
    """The wait that so many percent of the bursts stayed below; None where that one never arrived."""
    found = float(np.percentile(waits, percent, method="higher"))
    return found if math.isfinite(found) else None


def push_bursts(connection: Connection, seconds: int, run: str) -> list[Sent]:
    """Push bursts as detectors would."""
    belt, sent = Belt(scenario="threats", period_s=BOX_S + 2), list[Sent]()
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
    """Start a server, push, and say how many milliseconds each burst took to a verdict that includes it."""
    with tempfile.TemporaryDirectory(prefix="penstock-hazmat-", ignore_cleanup_errors=True) as folder:
        site = Site(str(simulate_background(Path(folder) / "background.json", 1)), max_s=float(BOX_S))
        with connected("", Path(folder) / "data", Console(stderr=True)) as connection:
            set_up(connection, site, simulated=False)
            arrivals = Arrivals()
            arrivals.start(connection.url)
            arrivals.wait(push_bursts(connection, SETTLE_S, "settle"), PATIENCE_S)
            sent = push_bursts(connection, seconds, "pushed")
            if not arrivals.wait(sent, PATIENCE_S):
                Console(stderr=True).print(
                    f"bursts are missing: {arrivals.problem or 'verdicts are too slow'}", markup=False
                )
            return arrivals.waits_ms(sent)


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
    commit, command = commit_now(), command_of("apps.hazmat.measure.latency")
    figures: dict[str, list[float | None]] = {
        "burst_to_verdict_p50_ms": [percentile(each, 50) for each in waits],
        "burst_to_verdict_p99_ms": [percentile(each, 99) for each in waits],
        "burst_to_verdict_bursts": [len(each) for each in waits],
        "burst_to_verdict_missing": [sum(map(math.isinf, each)) for each in waits],
    }
    for name, found in figures.items():
        report.put_runs(name, found, loads, commit=commit, command=command)
    report.save()


if __name__ == "__main__":
    main()
