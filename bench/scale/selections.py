"""Workload W100k: 100 000 standing selections at 100 000 rows/s.

90 % are alarms of one of 10 000 sensors (`sensor_id = c AND a >= d`), of which a row matches about one; 10 % are the dense selections
of `query_workload`. 1 % have a subscriber, and five times a second a random one is asked.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from bench.followed import followers
from bench.foundations import drain, generate
from bench.generator import percentile
from bench.queries_register import is_right
from bench.queries_selections import backlog_cycles
from bench.queries_server import WARM_SECONDS, WARM_SEED, hold, register, set_up, task_of, wait_past, with_times
from bench.query_workload import VALUES, Columns, Selection, selections
from bench.scale import Figures
from bench.server import Server
from bench.statistics_readers import Readers

COUNT, RATE, SENSORS = 100_000, 100_000, 10_000
SEED = 63
ALARM_SHARE, FOLLOWED_SHARE, ASKS_PER_S = 0.9, 0.01, 5.0
ALARM_WINDOW_S = 10
CHECKED = 40
SETTINGS = {"queries_max": 200_000}


@dataclass(frozen=True, slots=True)
class Alarm:
    """Readings of one sensor with a high value, of the last seconds."""

    sensor: int
    least: int

    def window_us(self, _rate: float) -> int:
        return ALARM_WINDOW_S * 1_000_000

    def sql(self, _rate: float) -> str:
        where = f"sensor_id = {self.sensor} AND a >= {self.least}"
        window = f"BEGIN (NOW - {ALARM_WINDOW_S} SECONDS) END (NOW)"
        return f"SELECT sensor_id, a, b, c, d FROM readings WHERE {where} {window}"

    def selects(self, columns: Columns) -> np.ndarray:
        found: np.ndarray = (columns["sensor_id"] == self.sensor) & (columns["a"] >= self.least)
        return found


def workload(count: int) -> list[Alarm | Selection]:
    """Nine alarms and a dense selection, again and again."""
    rng = np.random.default_rng(SEED)
    dense = iter(selections(count, SEED))
    return [
        Alarm(int(rng.integers(SENSORS)), int(rng.integers(VALUES))) if number % 10 < 10 * ALARM_SHARE else next(dense)
        for number in range(count)
    ]


def measure_selections(say: Callable[[str], None], seconds: float, count: int = COUNT) -> Figures:
    chosen = workload(count)
    name = f"selections_{count // 1000}k"
    say(f"{name}: one query for comparison, {RATE:,} rows/s for {seconds:.0f} s")
    with Server(**SETTINGS) as server:
        set_up(server, own_times=True, sensors=SENSORS)
        register(server, [("q0", chosen[0].sql(RATE))])
        alone = load(server, ["q0"], seconds)[0]
    with tempfile.TemporaryDirectory(prefix="penstock-selections-") as temporary:
        folder = Path(temporary) / "data"
        with Server(data=folder, **SETTINGS) as server:
            set_up(server, own_times=True, sensors=SENSORS)
            say(f"{name}: registering")
            began = time.monotonic()
            names = [f"q{number}" for number in range(count)]
            register(server, list(zip(names, (asked.sql(RATE) for asked in chosen), strict=True)))
            registered_s = time.monotonic() - began
            say(f"{name}: registered in {registered_s:.0f} s; {RATE:,} rows/s for {seconds:.0f} s")
            found, task, invoked, errors = load(server, names, seconds)
            wait_past(server, server.status()["cycle"] + 1, timeout_s=2)
            some = np.random.default_rng(SEED + 1).permutation(count)[:CHECKED].tolist()
            wrong = [n for n in some if not is_right(server, names[n], chosen[n], task, None)]
            failed = server.failed_queries()
        restart_s = restart(folder, [names[n] for n in some])
    return {
        f"{name}_cycle_p50_ms": found["cycle_p50_ms"],
        f"{name}_cycle_p99_ms": found["cycle_p99_ms"],
        f"{name}_push_to_visible_p50_ms": found["p50_ms"],
        f"{name}_push_to_visible_p99_ms": found["p99_ms"],
        f"{name}_backlog_cycles": backlog_cycles(found),
        f"{name}_rows_per_s": found["rate"],
        f"{name}_kb_per_query": (found["memory_mb"] - alone["memory_mb"]) * 1024 / count,
        f"{name}_register_s": registered_s,
        f"{name}_restart_s": restart_s,
        f"{name}_invoke_p50_ms": percentile(invoked, 0.5),
        f"{name}_wrong": len(wrong),
        f"{name}_errors": errors + failed + len(found["failures"]),
    }


def load(server: Server, names: Sequence[str], seconds: float) -> tuple[dict, dict, list[float], int]:
    """Hold the rate with subscribers and invocations: figures, the task that says every reading, milliseconds, errors."""
    generate(**with_times(task_of(server, 20_000, WARM_SECONDS, WARM_SEED, sensors=SENSORS)))
    drain(server)
    followed = names[:: round(1 / FOLLOWED_SHARE)]
    with followers(server, followed) as heard, Readers(server.url, (), names, ASKS_PER_S) as readers:
        task = with_times(task_of(server, RATE, seconds, seed=1, sensors=SENSORS))
        found = hold(server, task)
        drain(server)
    return found, task, sorted(readers.invoked_ms), len(readers.errors) + heard["errors"]


def restart(folder: Path, names: Sequence[str]) -> float:
    """Seconds from the start of the process until some queries have answered."""
    with Server(data=folder, **SETTINGS) as server:
        began = time.monotonic()
        for name in names:
            while httpx.get(f"{server.url}/v1/queries/{name}/rows", timeout=120).status_code != 200:
                if time.monotonic() - began > 600:
                    raise RuntimeError(f"{name} has no answer\n{server.log_tail()}")
                time.sleep(0.02)
        return server.ready_s + time.monotonic() - began
