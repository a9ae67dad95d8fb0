"""Windowed aggregates, the readings that they aggregate, and what is right. Everything follows from a seed.

One stream of 20 sensors at 4 sites with three numbers each. Aggregates have one of four groupings: none, a static column, the
sensor, and an expression of a field. Windows are 1 s to 1 hour: most slide with NOW, some are TUMBLE or SLIDE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from bench.query_workload import times_us

SENSORS, SITES, KINDS, VALUES = 20, 4, 8, 256
FIELDS = "a INT, b DOUBLE, d INT, marker BIGINT"
TABLE = f"CREATE TABLE readings (sensor_id INT PRIMARY KEY, site TEXT, r STREAM ({FIELDS})) WITH (time = 'valid')"
MARKERS = "SELECT marker FROM readings WHERE marker > 0 BEGIN (NOW - 10 SECONDS) END (NOW)"
GROUPINGS: dict[str, tuple[str, ...]] = {
    "all": (),
    "site": ("site",),
    "sensor": ("sensor_id",),
    "kind": (f"d % {KINDS}",),
}
CALLS = (
    ("COUNT(*)", "size", "a"),
    ("SUM(a)", "sum", "a"),
    ("AVG(b)", "mean", "b"),
    ("MIN(b)", "min", "b"),
    ("MAX(b)", "max", "b"),
    ("STDDEV(b)", "std", "b"),
)
"""SQL, pandas' name for it, and of which column."""
WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600)
"""Of panes: round, as people choose them."""
SLIDING_SHARE, HOUR_S = 0.8, 3_600
STEPS = 5
"""A SLIDE of w seconds begins every w / 5, where that is a whole number of seconds."""


def inserts() -> str:
    return f"INSERT INTO readings VALUES {', '.join(f'({i}, {site_of(i)!r}, NULL)' for i in range(SENSORS))}"


def site_of(sensor: int) -> str:
    return f"site {sensor % SITES}"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One call over one window, by one grouping; `step_s` is None where the window slides with NOW."""

    grouping: str
    call: int
    window_s: int
    step_s: int | None = None

    def sql(self) -> str:
        keys = GROUPINGS[self.grouping]
        listed = ", ".join([*(f"{key} AS k" for key in keys), f"{CALLS[self.call][0]} AS v"])
        if self.step_s is None:
            group = f" GROUP BY {', '.join(keys)}" if keys else ""
            return f"SELECT {listed} FROM readings{group} BEGIN (NOW - {self.window_s} SECONDS) END (NOW)"
        panes = f"SLIDE({self.window_s} SECONDS, {self.step_s} SECONDS)"
        if self.step_s == self.window_s:
            panes = f"TUMBLE({self.window_s} SECONDS)"
        group = ", ".join([*keys, panes])
        window = f"BEGIN (NOW - {2 * self.window_s} SECONDS) END (NOW)"
        return f"SELECT window_start, {listed} FROM readings GROUP BY {group} {window}"


def aggregates(count: int, seed: int) -> list[Aggregate]:
    """Lengths of sliding windows are any whole number of seconds, as many short ones as long ones."""
    rng = np.random.default_rng([seed, 5])
    return [_aggregate(rng, list(GROUPINGS)[number % len(GROUPINGS)]) for number in range(count)]


def _aggregate(rng: np.random.Generator, grouping: str) -> Aggregate:
    call = int(rng.integers(len(CALLS)))
    if rng.random() < SLIDING_SHARE:
        return Aggregate(grouping, call, int(np.exp(rng.uniform(0, np.log(HOUR_S + 1)))))
    # A pane of an hour reaches back two: the hour is the longest that history fills, so panes are half as long.
    width = int(rng.choice([w for w in WIDTHS_S if w <= HOUR_S // 2]))
    slides = rng.random() < 0.5 and width % STEPS == 0
    return Aggregate(grouping, call, width, width // STEPS if slides else width)


def readings(seed: int, index: int, rows: int) -> dict[str, np.ndarray]:
    """The rows of one push, by its number."""
    rng = np.random.default_rng([seed, index])
    return {
        "sensor_id": rng.integers(0, SENSORS, rows, dtype=np.int32),
        "a": rng.integers(0, VALUES, rows, dtype=np.int32),
        "b": rng.normal(100.0, 15.0, rows),
        "d": rng.integers(0, VALUES, rows, dtype=np.int32),
    }


def push_batch(task: Mapping[str, Any], index: int, rows: int, marker: int) -> pa.RecordBatch:
    """One push of the generator; rows carry a time of their own."""
    us = times_us(task["origin_us"], index, rows, task["interval_s"])
    return as_batch(readings(task["seed"], index, rows), us, marker)


def history(seed: int, begin_us: int, first_s: int, seconds: int) -> pa.RecordBatch:
    """So many seconds of the time before the load, thinly: one reading a second of every sensor and kind."""
    rows = SENSORS * KINDS
    columns = readings(seed, 1_000_000 + first_s, rows * seconds)
    columns["sensor_id"] = np.tile(np.repeat(np.arange(SENSORS, dtype=np.int32), KINDS), seconds)
    columns["d"] = np.tile(np.arange(KINDS, dtype=np.int32), SENSORS * seconds)
    us = begin_us + first_s * 1_000_000 + np.arange(rows * seconds) * 1_000_000 // rows
    return as_batch(columns, us, 0)


def as_batch(columns: Mapping[str, np.ndarray], us: np.ndarray, marker: int) -> pa.RecordBatch:
    marks = np.zeros(len(us), np.int64)
    marks[0] = marker
    return pa.record_batch({**columns, "ts": pa.array(us).cast(pa.timestamp("us", tz="UTC")), "marker": marks})


def expected(asked: Aggregate, rows: pd.DataFrame, now_us: int) -> dict[Any, float]:
    """What a window that slides with NOW answers, by group. `rows` have sensor_id, a, b, d and us, all of them pushed."""
    assert asked.step_s is None
    inside = rows[(rows.us >= now_us - asked.window_s * 1_000_000) & (rows.us <= now_us)]
    _, how, column = CALLS[asked.call]
    if asked.grouping == "all":
        return {None: float(inside[column].size if how == "size" else getattr(inside[column], how)())}
    keys = {"site": inside.sensor_id % SITES, "sensor": inside.sensor_id, "kind": inside.d % KINDS}[asked.grouping]
    grouped = inside.groupby(keys)[column]
    found = grouped.size() if how == "size" else getattr(grouped, how)()
    name = site_of if asked.grouping == "site" else int
    return {name(key): float(value) for key, value in found.items()}


def as_frame(batches: Sequence[pa.RecordBatch]) -> pd.DataFrame:
    table = pa.Table.from_batches(batches)
    frame = table.select(["sensor_id", "a", "b", "d"]).to_pandas()
    frame["us"] = table["ts"].cast(pa.int64()).to_numpy()
    return frame
