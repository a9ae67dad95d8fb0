"""A month of slow sensors: 200 of them, a reading a minute, 8.6 million rows; then a standing query over 30 days of it.

How long the query fills its window, whether another table's cycles notice, what an answer takes over HTTP and in a process that
opens the same folder, and what a cell takes. Readings go on meanwhile, so that no answer is the one before it.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from bench import foundations
from bench.generator import percentile
from bench.local_database import local_database
from bench.queries_server import cycle_figures, cycles_after, loaded
from bench.scale import Figures
from bench.scale.server import answer_when_filled, push_history, settle
from bench.scale.workload import DAY_MINUTES, MINUTE_US, TABLE, Minutely
from bench.server import Server
from bench.statistics_aggregates import push

SENSORS, DAYS = 200, 30
QUERY = "SELECT sid, AVG(x), MAX(x), COUNT(*) FROM m GROUP BY sid BEGIN (NOW - 30 DAYS) END (NOW)"
OTHER = "SELECT sid, COUNT(*), SUM(x) FROM m WHERE x >= 0 GROUP BY sid BEGIN (NOW - 30 DAYS) END (NOW)"
"""Of the same rows, but cells are shared only between queries with the same WHERE: this one has to read the month again."""
FETCHES, PACE_S = 100, 0.25
LIVE_RATE, LIVE_S = 10_000, 20.0


def measure_month(say: Callable[[str], None], days: int = DAYS) -> Figures:
    data = Minutely(SENSORS, (int(time.time()) // 60 - (days + 1) * DAY_MINUTES) * MINUTE_US)
    sent = SENSORS * DAY_MINUTES * days
    with tempfile.TemporaryDirectory(prefix="penstock-month-") as temporary:
        folder = Path(temporary) / "data"
        with Server(data=folder) as server:
            server.sql(TABLE)
            for statement in data.inserts():
                server.sql(statement)
            say(f"month: pushing {sent:,} rows")
            found: Figures = {"month_rows": sent, "month_push_s": push_history(server, data, sent)}
            found |= fill(server, "m30", QUERY, "month")
            say(f"month: {found}")
            sent, spent, answer = fetch_over_http(server, data, sent)
            found["month_fetch_http_ms"] = percentile(spent, 0.5)
            found["month_fetch_http_p99_ms"] = percentile(spent, 0.99)
            found["month_wrong"] = wrong(data, sent, answer["rows"])
            say("month: a second query fills, beside the cycles of another table")
            found |= fill_beside_load(server)
            found["month_bytes_per_cell"] = bytes_per_cell(say, server, "sums")
            found["month_bytes_per_cell_avg_max_count"] = bytes_per_cell(say, server, "m30")
        say("month: the same folder in this process")
        return found | fetch_in_process(folder, data, sent)


def fill(server: Server, name: str, select: str, prefix: str) -> Figures:
    """From CREATE QUERY until the first answer, and the longest time that a request took meanwhile."""
    began = time.monotonic()
    server.sql(f"CREATE QUERY {name} AS {select}")
    created_s = time.monotonic() - began
    longest_s = answer_when_filled(server, name)
    took_s = time.monotonic() - began
    return {f"{prefix}_fill_s": took_s, f"{prefix}_longest_request_s": max(created_s, longest_s)}


def fetch_over_http(server: Server, data: Minutely, sent: int) -> tuple[int, list[float], dict[str, Any]]:
    """Milliseconds of answers at an even pace, each after another minute's readings; how many readings there are then."""
    spent, answer = [], {}
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for _ in range(FETCHES):
            push(server, data.readings(sent, sent + SENSORS), "m")
            sent += SENSORS
            time.sleep(PACE_S)
            began = time.perf_counter()
            reply = client.get("/v1/queries/m30/rows")
            spent.append((time.perf_counter() - began) * 1000)
            reply.raise_for_status()
        settle(server)
        time.sleep(PACE_S)
        answer = client.get("/v1/queries/m30/rows").json()
    return sent, sorted(spent), answer


def wrong(data: Minutely, sent: int, rows: Sequence[Sequence[Any]]) -> int:
    """How many sensors have another answer than their readings give."""
    now_us = data.newest_us(sent)
    found = {row[0]: tuple(row[1:]) for row in rows}
    bad = 0
    for sensor in range(data.sensors):
        right = data.sums(range(sensor, sensor + 1), now_us - 30 * DAY_MINUTES * MINUTE_US, now_us, sent)
        mean, highest, count = found.get(sensor, (0.0, 0.0, 0))
        bad += (highest, count) != (right.highest, right.count) or not math.isclose(mean, right.total / right.count)
    return bad


def fill_beside_load(server: Server) -> Figures:
    """The cycle's p99 while a query fills, and before, at a rate of rows in another table."""
    foundations.set_up(server, 1)
    foundations.warm_up(server)
    task = {"do": "hold_rate", "url": server.url, "table": "readings", "query": "markers", "rate": LIVE_RATE}
    task |= {"seconds": 3 * LIVE_S, "interval_s": 0.05, "sensors": foundations.SENSORS, "seed": 8, "connections": 2}
    with loaded(task) as load:
        time.sleep(2)
        first = server.status()["cycle"]
        time.sleep(LIVE_S)
        begin = server.status()["cycle"]
        found = fill(server, "sums", OTHER, "month_live")
        end = server.status()["cycle"]
    if load["failures"]:
        raise RuntimeError(f"pushes were refused: {load['failures']}")
    cycles = cycles_after(server, first)
    before = cycle_figures([c for c in cycles if c["cycle"] <= begin])
    filling = cycle_figures([c for c in cycles if begin < c["cycle"] <= end])
    return found | {
        "live_cycle_p99_ms": before["cycle_p99_ms"],
        "live_cycle_p99_ms_filling": filling["cycle_p99_ms"],
        "live_cycles_filling": filling["cycles"],
        "live_cycle_p99_ratio_filling": filling["cycle_p99_ms"] / before["cycle_p99_ms"],
    }


def bytes_per_cell(say: Callable[[str], None], server: Server, name: str) -> float:
    """Memory of a query that shares its cells with none, by the number of cells that EXPLAIN tells."""
    lines = [str(value) for row in server.sql(f"EXPLAIN {name}")["rows"] for value in row]
    say("\n".join(line for line in lines if "cell" in line or "bytes" in line))
    memory = httpx.get(f"{server.url}/v1/queries/{name}", timeout=60).json()["memory"]
    return float(memory) / cells_of("\n".join(lines))


def cells_of(explained: str) -> int:
    """The largest number of cells that EXPLAIN names: that of all levels together, where it names those of each, too."""
    return max(int(number) for number in re.findall(r"(\d+) cells?\b", explained))


def fetch_in_process(folder: Path, data: Minutely, sent: int) -> Figures:
    """Milliseconds of an answer, each after a cycle with another minute's readings."""
    with local_database(folder=folder) as (database, engine):
        began = time.perf_counter()
        database.invoke("m30")
        first_ms = (time.perf_counter() - began) * 1000
        spent = []
        for _ in range(FETCHES):
            database.push("m", pa.Table.from_batches([data.readings(sent, sent + SENSORS)]))
            sent += SENSORS
            engine.drain()
            began = time.perf_counter()
            database.invoke("m30")
            spent.append((time.perf_counter() - began) * 1000)
    spent.sort()
    return {
        "month_first_fetch_ms": first_ms,
        "month_fetch_ms": percentile(spent, 0.5),
        "month_fetch_p99_ms": percentile(spent, 0.99),
    }
