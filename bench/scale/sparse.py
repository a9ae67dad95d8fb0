"""Few readings and many aggregates: 26 115 hourly readings of three sensors, about a year, and 90 different standing queries over them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa

from bench.queries_server import register
from bench.scale import Figures
from bench.scale.server import cells_mb, settle
from bench.server import Server
from bench.statistics_aggregates import push
from penstock.clock import parse_timestamp

SENSORS, HOURS = 3, 8_705
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
TABLE = "CREATE TABLE h (sid INT PRIMARY KEY, r STREAM (x DOUBLE)) WITH (time = 'valid')"
CALLS = (
    ("COUNT(*)", "size"),
    ("SUM(x)", "sum"),
    ("AVG(x)", "mean"),
    ("MIN(x)", "min"),
    ("MAX(x)", "max"),
    ("STDDEV(x)", "std"),
)
"""SQL, and pandas' name for it."""
GROUPINGS = {"": (), "sid": ("sid",), "sid, TUMBLE(1 DAY)": ("sid", "day")}
"""SQL, and the columns that pandas groups by."""
WINDOWS = ((1, 0.0), (7, 5.0), (30, 10.0), (120, 15.0), (360, 20.0))
"""Days, and the least x: cells are shared only between queries with the same WHERE, so each window has its own."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One of the 90."""

    call: int
    grouping: str
    days: int
    least: float

    def sql(self) -> str:
        start = "window_start, " if "TUMBLE" in self.grouping else ""
        keys = "sid, " if self.grouping else ""
        by = f" GROUP BY {self.grouping}" if self.grouping else ""
        window = f"BEGIN (NOW - {self.days} DAYS) END (NOW)"
        return f"SELECT {keys}{start}{CALLS[self.call][0]} AS v FROM h WHERE x >= {self.least}{by} {window}"

    def expected(self, rows: pd.DataFrame, now_us: int) -> list[tuple[Any, ...]]:
        """Sorted rows: the key, and the value; a day as the number of its first microsecond."""
        inside = rows[(rows.us >= now_us - self.days * DAY_US) & (rows.us <= now_us) & (rows.x >= self.least)]
        how, keys = CALLS[self.call][1], list(GROUPINGS[self.grouping])
        if not keys:
            return [(float(len(inside) if how == "size" else getattr(inside.x, how)()),)]
        grouped = inside.groupby(keys).x
        found = grouped.size() if how == "size" else getattr(grouped, how)()
        return sorted((*(key if isinstance(key, tuple) else (key,)), float(value)) for key, value in found.items())


def aggregates() -> list[Aggregate]:
    choices = product(range(len(CALLS)), GROUPINGS, WINDOWS)
    return [Aggregate(call, grouping, *window) for call, grouping, window in choices]


def hourly(begin_us: int) -> pd.DataFrame:
    """All readings in the order of time; each comes some seconds after the hour."""
    rng = np.random.default_rng(61)
    hour, sensor = np.divmod(np.arange(SENSORS * HOURS), SENSORS)
    us = begin_us + hour * HOUR_US + sensor * 7_000_000 + rng.integers(0, 5_000, len(hour)) * 1000
    return pd.DataFrame(
        {"sid": sensor, "us": us, "x": rng.integers(0, 1_000, len(hour)) / 10, "day": us // DAY_US * DAY_US}
    )


def as_batch(rows: pd.DataFrame) -> pa.RecordBatch:
    ts = pa.array(rows.us.to_numpy()).cast(pa.timestamp("us", tz="UTC"))
    return pa.record_batch({"sid": pa.array(rows.sid.to_numpy(), pa.int32()), "ts": ts, "x": rows.x.to_numpy()})


def measure_sparse(say: Callable[[str], None]) -> Figures:
    chosen = {f"q{number}": asked for number, asked in enumerate(aggregates())}
    rows = hourly((int(time.time()) // 3_600 - HOURS - 1) * HOUR_US)
    with Server() as server:
        server.sql(TABLE)
        server.sql(f"INSERT INTO h VALUES {', '.join(f'({n}, NULL)' for n in range(SENSORS))}")
        push(server, as_batch(rows), "h")
        settle(server)
        say(f"sparse: {len(chosen)} aggregates over {len(rows):,} readings")
        register(server, [(name, asked.sql()) for name, asked in chosen.items()])
        replies = {name: ask(server, name) for name in chosen}
        failed = [name for name, reply in replies.items() if reply.status_code != 200]
        now_us = int(rows.us.max())
        answered = {name: reply.json()["rows"] for name, reply in replies.items() if name not in failed}
        wrong = [name for name, given in answered.items() if not same(given, chosen[name].expected(rows, now_us))]
        for name in (*failed[:3], *wrong[:3]):
            say(f"[bold red]sparse:[/bold red] {chosen[name].sql()}: {replies[name].text[:300]}")
        return {
            "sparse_failed": max(len(failed), server.failed_queries()),
            "sparse_wrong": len(wrong),
            "sparse_slices_mb": cells_mb(server),
        }


def ask(server: Server, name: str) -> httpx.Response:
    """Its answer, once it is there; a query that still fills after a minute has failed."""
    deadline = time.monotonic() + 60
    while True:
        reply = httpx.get(f"{server.url}/v1/queries/{name}/rows", timeout=120)
        filling = reply.status_code != 200 and reply.json()["error"]["condition"] == "not_ready"
        if not filling or time.monotonic() > deadline:
            return reply
        time.sleep(0.1)


def same(answer: Sequence[Sequence[Any]], right: list[tuple[Any, ...]]) -> bool:
    """A deviation of one reading is NULL here and NaN there."""
    found = sorted((*map(number_of, row[:-1]), np.nan if row[-1] is None else row[-1]) for row in answer)
    keys = [row[:-1] for row in found] == [row[:-1] for row in right]
    return keys and bool(np.allclose([row[-1] for row in found], [row[-1] for row in right], rtol=1e-9, equal_nan=True))


def number_of(key: Any) -> int:
    """A key of the answer; a time as microseconds."""
    return parse_timestamp(key) if isinstance(key, str) else int(key)
