"""Many slow sensors and long windows: 10 000 of them, a reading a minute, and 100 aggregates over 1 hour to 30 days.

The folder with all 31 days is made in this process (`sensors_folder`): a server would take longer than a part may. Then a server opens it,
readings come at their own pace, with subscribers and clients that ask, and it is started again. So cells, cycles and the restart are of
one folder whose windows are full. With fewer days, `sensors10k_cells_mb_estimated_full` is what EXPLAIN estimates for full ones.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.generator import percentile
from bench.queries_server import cycle_figures, cycles_after, memory_mb
from bench.scale import Figures
from bench.scale.sensors_folder import make_folder
from bench.scale.server import answer_when_filled, cells_mb, settle
from bench.scale.workload import DAY_MINUTES, MINUTE_US, SITES, Minutely, site_of
from bench.server import Server
from bench.statistics_aggregates import push
from bench.statistics_readers import Readers
from penstock.clock import parse_timestamp

SENSORS, DAYS, QUERIES = 10_000, 31, 100
SLICES_MB = 1_000
HOUR_S, MONTH_S = 3_600, 30 * 86_400
KINDS = (("sid", "AVG(x)"), ("sid", "MAX(x)"), ("sid", "COUNT(*)"), ("site", "AVG(x)"))
FOLLOWED, ASKS_PER_S = 10, 5.0
PUSH_EVERY_S = 0.05
CHECKED, CHECKED_GROUPS = 12, 5


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One call over the last so many seconds."""

    key: str
    call: str
    window_s: int

    def sql(self) -> str:
        window = f"BEGIN (NOW - {self.window_s} SECONDS) END (NOW)"
        return f"SELECT {self.key}, {self.call} AS v FROM m GROUP BY {self.key} {window}"

    def expected(self, data: Minutely, group: Any, now_us: int, sent: int) -> float:
        sensors = range(group, group + 1) if self.key == "sid" else range(group, data.sensors, SITES)
        found = data.sums(sensors, now_us - self.window_s * 1_000_000, now_us, sent)
        return {"AVG(x)": found.total / found.count, "MAX(x)": found.highest, "COUNT(*)": found.count}[self.call]


def aggregates(count: int = QUERIES) -> list[Aggregate]:
    """All kinds alike, as many short windows as long ones."""
    lengths = np.geomspace(HOUR_S, MONTH_S, -(-count // len(KINDS)))
    return [Aggregate(*KINDS[n % len(KINDS)], round(lengths[n // len(KINDS)])) for n in range(count)]


def measure_sensors(say: Callable[[str], None], days: int, seconds: float, sensors: int = SENSORS) -> Figures:
    data = Minutely(sensors, (int(time.time()) // 60 - (days + 1) * DAY_MINUTES) * MINUTE_US)
    chosen = {f"q{number}": asked for number, asked in enumerate(aggregates())}
    sent = sensors * DAY_MINUTES * days
    with tempfile.TemporaryDirectory(prefix="penstock-sensors-") as temporary:
        folder = Path(temporary) / "data"
        queries = {name: asked.sql() for name, asked in chosen.items()}
        found, sent = make_folder(say, folder, data, queries, sent, SLICES_MB)
        with Server(data=folder, slices_memory_mb=SLICES_MB) as server:
            found["sensors10k_first_start_to_answers_s"] = started_s(server, queries)
            say(f"sensors10k: {seconds:.0f} s at the sensors' own pace")
            more, sent = live(server, list(chosen), data, sent, seconds)
            found |= more
            if failed := server.failed_queries():
                raise RuntimeError(f"{failed} of the {len(chosen)} queries failed\n{server.log_tail()}")
            found["sensors10k_wrong"] = wrong(say, server, chosen, data, sent)
            found["sensors10k_cells_mb"] = cells_mb(server)
            found["sensors10k_cells_mb_estimated_full"] = estimated_mb(server, chosen)
            found["sensors10k_memory_mb"] = memory_mb(server)
        say("sensors10k: the restart")
        with Server(data=folder, slices_memory_mb=SLICES_MB) as server:
            found["restart_to_answers_s"] = started_s(server, queries)
            found["sensors10k_wrong_after_restart"] = wrong(say, server, chosen, data, sent)
    return found | {"sensors10k_days": days, "sensors10k_rows": sent}


def started_s(server: Server, names: Iterable[str]) -> float:
    """Seconds from the start of its process until every query has answered."""
    began = time.monotonic()
    for name in names:
        answer_when_filled(server, name)
    return server.ready_s + time.monotonic() - began


def estimated_mb(server: Server, chosen: dict[str, Aggregate]) -> float:
    """What EXPLAIN estimates for the longest window of each kind: the other windows use the same cells."""
    longest = {(asked.key, asked.call): name for name, asked in chosen.items()}
    lines = [str(row[0]) for name in longest.values() for row in server.sql(f"EXPLAIN {name}")["rows"]]
    return sum(float(found[1].replace(",", "")) for line in lines if (found := re.search(r"([\d,.]+) MB of", line)))


def live(server: Server, names: Sequence[str], data: Minutely, sent: int, seconds: float) -> tuple[Figures, int]:
    """Readings at their own pace, some queries followed and random ones asked; how many readings there are then."""
    per_push = max(1, round(data.sensors / 60 * PUSH_EVERY_S))
    before, began = server.status()["cycle"], time.monotonic()
    with Readers(server.url, names[:: len(names) // FOLLOWED][:FOLLOWED], names, ASKS_PER_S) as readers:
        for turn in range(int(seconds / PUSH_EVERY_S)):
            time.sleep(max(0.0, began + turn * PUSH_EVERY_S - time.monotonic()))
            push(server, data.readings(sent, sent + per_push), "m")
            sent += per_push
    settle(server)
    cycles = cycle_figures(cycles_after(server, before))
    invoked = sorted(readers.invoked_ms)
    found: Figures = {
        "sensors10k_cycle_p50_ms": cycles["cycle_p50_ms"],
        "sensors10k_cycle_p99_ms": cycles["cycle_p99_ms"],
        "sensors10k_cycles": cycles["cycles"],
        "sensors10k_invoke_p50_ms": percentile(invoked, 0.5),
        "sensors10k_invoke_p99_ms": percentile(invoked, 0.99),
        "sensors10k_events": readers.events,
        "sensors10k_errors": len(readers.errors),
    }
    return found, sent


def wrong(say: Callable[[str], None], server: Server, chosen: dict[str, Aggregate], data: Minutely, sent: int) -> int:
    """How many of some answers are not what the readings give, each in some groups."""
    rng, bad = np.random.default_rng(62), 0
    newest_us = data.newest_us(sent)
    for name in rng.permutation(list(chosen))[:CHECKED].tolist():
        asked = chosen[name]
        answer = answer_at(server, name, newest_us)
        groups = rng.integers(0, data.sensors if asked.key == "sid" else SITES, CHECKED_GROUPS).tolist()
        right = {g if asked.key == "sid" else site_of(g): asked.expected(data, g, newest_us, sent) for g in groups}
        if not all(math.isclose(answer.get(key, math.nan), value) for key, value in right.items()):
            bad += 1
            say(f"[bold red]sensors10k: {asked} is wrong")
    return bad


def answer_at(server: Server, name: str, now_us: int) -> dict[Any, float]:
    """By group, the answer at this NOW: it may be one cycle behind. Empty where there is none."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        reply = httpx.get(f"{server.url}/v1/queries/{name}/rows", timeout=120)
        if reply.status_code == 200 and parse_timestamp(reply.json()["now"]) == now_us:
            return {row[0]: row[1] for row in reply.json()["rows"]}
        time.sleep(0.1)
    return {}
