"""How the cost of a window join grows: with its window, its streams, skewed keys and the number of queries that share streams.

Measured on the pipeline without Spark: log, cycles, buffers in shared memory and committed results in one process, tasks one
after the other, so a figure is what one core does. The window is full before anything is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from bench.joins_tables import plot, write_table
from bench.local_database import local_database
from bench.report import Report

RATE = 1_000
CYCLE_ROWS = 30_000
Keys = Callable[[int, np.random.Generator], np.ndarray]


class Bed:
    """A database in a temporary folder whose cycles run when they are told to."""

    def __init__(self, streams: int, keys: Keys) -> None:
        self._streams, self._keys = streams, keys
        self._rng = np.random.default_rng(50)
        self._at_us = 0
        self._origin_us = int(time.time() - 7_200) * 1_000_000

    def __enter__(self) -> Bed:
        self._opened = local_database(cycle_max_rows=300_000)
        self.database, self.engine = self._opened.__enter__()
        for number in range(self._streams):
            self.database.execute(
                f"CREATE TABLE s{number} (id INT PRIMARY KEY, r STREAM (k BIGINT, v DOUBLE))"
                " WITH (time = 'valid', out_of_order = 'accept')"
            )
            self.database.execute(f"INSERT INTO s{number} VALUES (1, NULL)")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, value, trace)

    def add_query(self, number: int, window_s: float, condition: str = "") -> None:
        aliases = "abcdefgh"[: self._streams]
        equal = " AND ".join(f"a.k = {alias}.k" for alias in aliases[1:])
        tables = ", ".join(f"s{i} {alias}" for i, alias in enumerate(aliases))
        self.database.execute(
            f"CREATE QUERY q{number} AS SELECT a.k, a.v FROM {tables} WINDOW = {round(window_s * 1000)} MILLISECONDS"
            f" WHERE {equal}{condition}"
        )
        self.engine.drain()

    def push(self, rows: int) -> None:
        """So many rows over all streams, each at RATE."""
        each = rows // self._streams
        span = each * 1_000_000 // RATE
        for number in range(self._streams):
            us = np.sort(self._rng.integers(self._at_us, self._at_us + span, each)) + self._origin_us
            columns = {
                "id": pa.array(np.full(each, 1), pa.int32()),
                "ts": pa.array(us).cast(pa.timestamp("us", tz="UTC")),
                "k": pa.array(self._keys(each, self._rng)),
                "v": pa.array(self._rng.normal(size=each)),
            }
            self.database.push(f"s{number}", pa.table(columns))
        self._at_us += span

    def fill(self, window_s: float) -> None:
        """Until the window is full and everything is compiled."""
        left = max(round(window_s * RATE) * self._streams, CYCLE_ROWS)
        while left > 0:
            self.push(min(left, 300_000))
            self.engine.drain()
            left -= 300_000

    def rows_per_s(self, rows: int) -> tuple[float, float]:
        """Rows and results per second of cycles."""
        before, spent, pushed = self.results(), 0.0, 0
        while pushed < rows:
            self.push(CYCLE_ROWS)
            pushed += CYCLE_ROWS
            began = time.perf_counter()
            self.engine.drain()
            spent += time.perf_counter() - began
        return pushed / spent, (self.results() - before) / spent

    def results(self) -> int:
        return sum(int(query["matched"] or 0) for query in self.database.queries())


def even(keys: int) -> Keys:
    return lambda count, rng: rng.integers(0, keys, count)


def zipf(exponent: float, keys: int) -> Keys:
    shares = np.arange(1, keys + 1) ** -exponent
    edges = np.cumsum(shares / shares.sum())
    return lambda count, rng: np.searchsorted(edges, rng.random(count)).astype(np.int64)


def measure_growth(report: Report, scale: float) -> None:
    rows = max(3 * CYCLE_ROWS, int(600_000 * scale))
    for grow in (grow_window, grow_streams, grow_skew, grow_queries):
        report.say(f"growth: {grow.__name__.partition('_')[2]}")
        grow(report, scale, rows)


def measured(
    streams: int, keys: Keys, window_s: float, rows: int, conditions: Sequence[str] = ("",)
) -> tuple[float, float]:
    with Bed(streams, keys) as bed:
        for number, condition in enumerate(conditions):
            bed.add_query(number, window_s, condition)
        bed.fill(window_s)
        return bed.rows_per_s(rows)


def save(report: Report, name: str, title: str, x: str, table: Sequence[dict[str, Any]], log: str) -> None:
    write_table(f"growth_{name}", title, table)
    values = [row[x] for row in table]
    panels = {quantity: {name: (values, [row[quantity] for row in table])} for quantity in ("rows/s", "results/s")}
    plot(f"growth_{name}", panels, x, log=log)
    for row in table:
        report.put(f"growth_{name}_{row[x]}_rows_per_s", row["rows/s"])


def grow_window(report: Report, scale: float, rows: int) -> None:
    """As many keys as another stream has tuples before and after one: about one match, whatever the window."""
    table = []
    for window in (1, 10, 60, 600, 3600):
        if window <= 3600 * scale:
            rate, results = measured(3, even(2 * RATE * window), window, rows)
            table.append({"window s": window, "rows/s": rate, "results/s": results})
    save(report, "window", "Three streams at 1 000/s, one match per tuple", "window s", table, "xy")


def grow_streams(report: Report, scale: float, rows: int) -> None:
    table = []
    for streams in range(2, 9):
        rate, results = measured(streams, even(2 * RATE * 10), 10, rows)
        table.append({"streams": streams, "rows/s": rate, "results/s": results})
    save(report, "streams", "Window 10 s, 1 000/s a stream, one match per tuple and stream", "streams", table, "")


def grow_skew(report: Report, scale: float, rows: int) -> None:
    table = []
    for exponent in (0.0, 0.5, 1.0, 1.25, 1.5):
        rate, results = measured(2, zipf(exponent, 10_000), 1, rows)
        table.append({"zipf": exponent, "rows/s": rate, "results/s": results})
    save(report, "skew", "Two streams at 1 000/s, window 1 s, 10 000 keys by Zipf's law", "zipf", table, "y")


def grow_queries(report: Report, scale: float, rows: int) -> None:
    table = []
    for queries in (1, 10, 100):
        conditions = [f" AND a.v - b.v > {number / 100}" for number in range(queries)]
        rate, results = measured(3, even(2 * RATE * 10), 10, rows, conditions)
        table.append({"queries": queries, "rows/s": rate, "rows/s x queries": rate * queries, "results/s": results})
    save(report, "queries", "Joins with a condition of their own on three shared streams, 10 s", "queries", table, "xy")
