"""What standing mining queries cost: `python -m bench.mining_engine`, 1 000 sensors at one reading a second, six functions, each followed.

The window is an hour, slots are ten seconds. Measured are the cycles, the time from the end of a slot to the first event that has it, and
the memory that the server counts for these queries. Results: bench/results/mining.{json,md}.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from bench.generator import percentile
from bench.join_workload import arrow_stream
from bench.queries_server import cycle_figures, cycles_after, register
from bench.report import Report, command_of, commit_now
from bench.scale.server import settle
from bench.server import Server
from bench.statistics_aggregates import push
from penstock.clock import SECOND, parse_timestamp

SENSORS, HOUR_S, SLOT_S, SECONDS = 1_000, 3_600, 10, 120.0
PUSHES_A_SECOND = 10
SPIKES = 5
"""So many sensors have a spike in each slot: otherwise a subscriber of ANOMALIES would have nothing to hear."""
TABLE = "CREATE TABLE m (id INT PRIMARY KEY, r STREAM (v DOUBLE)) WITH (time = 'valid', out_of_order = 'accept')"
CALLS = {
    "series": "UNNEST(SERIES(v, every => 10 SECONDS))",
    "anomalies": "ANOMALIES(v, every => 10 SECONDS, history => 30 MINUTES)",
    "baseline": "BASELINE(v, every => 10 SECONDS, season => 10 MINUTES)",
    "periods": "PERIODS(v, every => 10 SECONDS)",
    "change_points": "CHANGE_POINTS(v, every => 10 SECONDS)",
    "forecast": "FORECAST(v, every => 10 SECONDS, ahead => 6)",
}
_NOW = re.compile(rb'event: rows\ndata: \{[^\[]{0,200}?"now":"([^"]+)"')


def queries() -> list[tuple[str, str]]:
    rest = "FROM m GROUP BY id BEGIN (NOW - 1 HOUR) END (NOW)"
    return [(name, f"SELECT id, {call} AS found {rest}") for name, call in CALLS.items()]


def readings(chance: np.random.Generator, ids: np.ndarray, times: np.ndarray) -> pa.RecordBatch:
    """A wave of ten minutes with noise, and now and then a spike."""
    values = 20 + np.sin(2 * np.pi * times / (600 * SECOND) + ids) + chance.normal(0, 0.5, len(ids))
    slots = times // (SLOT_S * SECOND)
    values[(slots * 131 + ids) % (SENSORS // SPIKES) == 0] += 5
    columns = {"id": ids.astype(np.int32), "ts": times, "v": values}
    arrays = [pa.array(c).cast(pa.timestamp("us", "UTC")) if n == "ts" else pa.array(c) for n, c in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def push_history(server: Server, chance: np.random.Generator, end_us: int, step_s: int) -> None:
    """An hour of readings, one of each sensor in `step_s` seconds."""
    for begin in range(0, HOUR_S, 100 * step_s):
        times = end_us + np.arange(begin, min(HOUR_S, begin + 100 * step_s), step_s) * SECOND - HOUR_S * SECOND
        ids = np.tile(np.arange(SENSORS), len(times))
        push(server, readings(chance, ids, np.repeat(times, SENSORS) + 1000 * ids), "m")
    settle(server)


class Heard:
    """The events of one query: when each came, and the NOW of its cycle."""

    def __init__(self, server: Server, name: str) -> None:
        self.events: list[tuple[float, int]] = []
        self.bytes = 0
        self._url = f"{server.url}/v1/queries/{name}/events"
        self._closed = False
        self.connected = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rest = b""
        with httpx.stream("GET", self._url, timeout=None) as reply:
            for data in reply.iter_raw():
                self.bytes += len(data)
                self.connected.set()
                rest, end = rest + data, 0
                for found in _NOW.finditer(rest):
                    self.events.append((time.time(), parse_timestamp(found[1].decode())))
                    end = found.end()
                rest = rest[end:][-400:]  # the beginning of an event may lie in two pieces
                if self._closed:
                    return

    def close(self) -> None:
        self._closed = True

    def delays_ms(self, ends: Mapping[int, float]) -> list[float]:
        """By slot that ended (`ends`: when the first reading behind it was sent), the time to the first event of a cycle that knew it."""
        first: dict[int, float] = {}
        for came_s, now_us in self.events:
            first.setdefault(now_us // (SLOT_S * SECOND), came_s)
        # An event that came later tells of the slots before it, too.
        known = {slot: min((s for at, s in first.items() if at >= slot), default=math.inf) for slot in ends}
        return [1000 * (known[slot] - sent_s) for slot, sent_s in ends.items()]


@contextmanager
def pushed(server: Server, chance: np.random.Generator) -> Iterator[dict[int, float]]:
    """Each sensor sends once a second, at a moment of its own, beside the block. When the first reading of each slot was sent."""
    done = threading.Event()
    begins: dict[int, float] = {}
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    each = SENSORS // PUSHES_A_SECOND

    def run() -> None:
        began, step = time.time(), 0
        client = httpx.Client(base_url=server.url, timeout=60)
        while not done.is_set():
            due = began + (step + 1) / PUSHES_A_SECOND
            time.sleep(max(0.0, due - time.time()))
            ids = (step % PUSHES_A_SECOND) * each + np.arange(each)
            times = round((due - 1 / PUSHES_A_SECOND) * SECOND) + chance.integers(0, SECOND // PUSHES_A_SECOND, each)
            body = arrow_stream(readings(chance, ids, np.sort(times)))
            begins.setdefault(int(times.max()) // (SLOT_S * SECOND), time.time())
            client.post("/v1/tables/m/readings", content=body, headers=headers).raise_for_status()
            step += 1

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield begins
    finally:
        done.set()
        thread.join()


def run(seconds: float, step_s: int, say: Any) -> dict[str, float | None]:
    chance = np.random.default_rng(17)
    with Server() as server:
        server.sql(TABLE)
        server.sql(f"INSERT INTO m VALUES {', '.join(f'({i}, NULL)' for i in range(SENSORS))}")
        say("an hour of history")
        register(server, queries())
        push_history(server, chance, round(time.time() * SECOND), step_s)
        say("subscribers")
        with pushed(server, chance) as begins:
            heard = {name: Heard(server, name) for name in CALLS}
            if not all(one.connected.wait(300) for one in heard.values()):
                raise RuntimeError(f"not all subscribers were connected\n{server.log_tail()}")
            time.sleep(3 * SLOT_S)  # kernels are compiled, and the first answers sent
            say(f"{seconds:.0f} s are measured")
            cycle, cpu_s, began_s = server.status()["cycle"], server.cpu_seconds(), time.time()
            time.sleep(seconds)
            # A slot that began in the last seconds has no event yet.
            ends = {slot: at for slot, at in begins.items() if began_s < at < time.time() - SLOT_S}
            cores = (server.cpu_seconds() - cpu_s) / (time.time() - began_s)
            cycles = cycle_figures(cycles_after(server, cycle))
        memory = server.sql("SELECT SUM(memory) FROM penstock.queries")["rows"][0][0]
        finish = server.sql("SELECT name, finish_ms FROM penstock.queries")["rows"]
        if server.failed_queries():
            raise RuntimeError(f"queries failed\n{server.log_tail()}")
        for one in heard.values():
            one.close()
        delays = {name: sorted(one.delays_ms(ends)) for name, one in heard.items()}
    found: dict[str, float | None] = {f"mining_{key}": value for key, value in cycles.items()}
    found["mining_push_p99_ms"] = percentile(sorted(ms for each in delays.values() for ms in each), 0.99)
    found["mining_push_p50_ms"] = percentile(sorted(ms for each in delays.values() for ms in each), 0.5)
    found["mining_kb_per_group"] = float(memory) / 1024 / SENSORS
    found["mining_cores"] = cores
    for name, each in delays.items():
        found[f"mining_push_worst_ms_{name}"] = each[-1] if each else None
        found[f"mining_slots_missed_{name}"] = each.count(math.inf)
        found[f"mining_events_{name}"] = sum(came_s > began_s for came_s, _ in heard[name].events)
    return found | {f"mining_finish_ms_{name}": ms for name, ms in finish}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.mining_engine", description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long is measured")
    parser.add_argument("--history-step", type=int, default=1, help="seconds between two readings of the history")
    options = parser.parse_args(arguments)
    command = command_of("bench.mining_engine")
    report = Report("mining", f"{SENSORS} sensors at 1/s, six functions, each followed", keep=True)
    found, loads = [], []
    for _ in range(options.runs):
        loads.append(round(os.getloadavg()[0], 2))
        found.append(run(options.seconds, options.history_step, report.say))
    for key in found[0]:
        report.put_runs(key, [one[key] for one in found], loads, commit=commit_now(), command=command)
    report.show()


if __name__ == "__main__":
    main()
