"""Standing selections as PSoup's authors made them up, the readings that they select from, and what is right.

Four attributes with values uniform in 0..255. A query has 1..8 boolean factors: intervals of an attribute, two factors
each, and for an odd number one comparison. Constants are multiples of 32 with probability 0.2, else uniform; widths are
uniform. Windows are 2^7..2^16 tuples. Everything follows from a seed, so that whoever pushes and whoever checks agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

ATTRIBUTES = ("a", "b", "c", "d")
VALUES = 256
ROUND, ROUND_SHARE = 32, 0.2
MOST_FACTORS = 2 * len(ATTRIBUTES)
SMALLEST_WINDOW, LARGEST_WINDOW = 7, 16
"""Powers of two."""
SENSORS = 100

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Range:
    """low <= attribute < high; one of them may be missing."""

    attribute: str
    low: int | None
    high: int | None

    def __str__(self) -> str:
        ends = [f"{self.attribute} >= {self.low}"] if self.low is not None else []
        return " AND ".join(ends + ([f"{self.attribute} < {self.high}"] if self.high is not None else []))


@dataclass(frozen=True, slots=True)
class Selection:
    """A conjunction of ranges over the last so many tuples."""

    ranges: tuple[Range, ...]
    window_tuples: int

    @property
    def factors(self) -> int:
        return sum((r.low is not None) + (r.high is not None) for r in self.ranges)

    def where(self) -> str:
        return " AND ".join(map(str, self.ranges))

    def window_us(self, rate: float) -> int:
        """A window in time that holds about as many tuples at a rate."""
        return max(1, round(self.window_tuples / rate * 1e6))

    def sql(self, rate: float) -> str:
        window = f"BEGIN (NOW - {self.window_us(rate)} MICROSECONDS) END (NOW)"
        return f"SELECT sensor_id, a, b, c, d FROM readings WHERE {self.where()} {window}"

    def selects(self, columns: Columns) -> np.ndarray:
        """Which rows: the oracle."""
        chosen = np.ones(len(columns[ATTRIBUTES[0]]), np.bool_)
        for r in self.ranges:
            values = columns[r.attribute]
            if r.low is not None:
                chosen &= values >= r.low
            if r.high is not None:
                chosen &= values < r.high
        return chosen


def selection(rng: np.random.Generator, factors: int | None = None, window_tuples: int | None = None) -> Selection:
    """One query; what is not given is drawn."""
    if factors is None:
        factors = int(rng.integers(1, MOST_FACTORS + 1))
    if window_tuples is None:
        window_tuples = 2 ** int(rng.integers(SMALLEST_WINDOW, LARGEST_WINDOW + 1))
    attributes = [ATTRIBUTES[i] for i in rng.permutation(len(ATTRIBUTES))]
    ranges = []
    for number in range((factors + 1) // 2):
        low, width = constant(rng), int(rng.integers(1, VALUES + 1))
        if 2 * number + 1 < factors:
            ranges.append(Range(attributes[number], low, low + width))
        elif rng.random() < 0.5:
            ranges.append(Range(attributes[number], low, None))
        else:
            ranges.append(Range(attributes[number], None, low))
    return Selection(tuple(ranges), window_tuples)


def constant(rng: np.random.Generator) -> int:
    if rng.random() < ROUND_SHARE:
        return ROUND * int(rng.integers(0, VALUES // ROUND))
    return int(rng.integers(0, VALUES))


def selections(count: int, seed: int, factors: int | None = None, window_tuples: int | None = None) -> list[Selection]:
    rng = np.random.default_rng([seed, 4])
    return [selection(rng, factors, window_tuples) for _ in range(count)]


def readings(seed: int, index: int, rows: int, sensors: int = SENSORS) -> dict[str, np.ndarray]:
    """The rows of one push, by its number."""
    rng = np.random.default_rng([seed, index])
    values = {name: rng.integers(0, VALUES, rows, dtype=np.int32) for name in ATTRIBUTES}
    return {"sensor_id": rng.integers(0, sensors, rows, dtype=np.int32), **values}


def times_us(origin_us: int, index: int, rows: int, interval_s: float) -> np.ndarray:
    """When the rows of a push were read, where sensors tell the time: evenly spread, no two at once."""
    return origin_us + round(index * interval_s * 1e6) + np.arange(rows) * round(interval_s * 1e6) // rows


def push_batch(task: Mapping[str, Any], index: int, rows: int, marker: int) -> pa.RecordBatch:
    """One push; with `origin_us` in the task rows carry a time of their own, with `sensors` there are so many."""
    columns: dict[str, Any] = dict(readings(task["seed"], index, rows, task.get("sensors", SENSORS)))
    if "origin_us" in task:
        us = times_us(task["origin_us"], index, rows, task["interval_s"])
        columns["ts"] = pa.array(us).cast(pa.timestamp("us", tz="UTC"))
    marks = np.zeros(rows, np.int64)
    marks[0] = marker
    return pa.record_batch({**columns, "marker": marks})


def expected_rows(
    chosen: Selection, task: Mapping[str, Any], now_us: int, window_us: int
) -> list[tuple[int, int, int, int, int]]:
    """What a query answers at NOW, from the pushes of a task with `origin_us`: sorted rows (sensor_id, a, b, c, d)."""
    interval_s = task["interval_s"]
    rows = max(1, round(task["rate"] * interval_s))
    first = max(0, int((now_us - window_us - task["origin_us"]) / (interval_s * 1e6)) - 1)
    last = int((now_us - task["origin_us"]) / (interval_s * 1e6)) + 1
    found: list[tuple[int, int, int, int, int]] = []
    for index in range(first, last + 1):
        columns = readings(task["seed"], index, rows, task.get("sensors", SENSORS))
        us = times_us(task["origin_us"], index, rows, interval_s)
        inside = (us >= now_us - window_us) & (us <= now_us) & chosen.selects(columns)
        found += zip(*(columns[name][inside].tolist() for name in ("sensor_id", *ATTRIBUTES)), strict=True)
    return sorted(found)
