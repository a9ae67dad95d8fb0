"""A year of 100 sensors, looked at many times: what standing aggregates answer is what DuckDB answers over the same rows.

Sensors send every minute to every hour, with gaps of days; some readings come hours late. Values are whole numbers of eighths, so sums
and means are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.support.examples import SOAK
from tests.support.pipe import Pipe

SENSORS, SITES, DAYS = 100, 7, 365
SECOND_US, HOUR_US, DAY_US = 1_000_000, 3_600_000_000, 86_400_000_000
BEGIN_US = 1_735_689_600_000_000  # 2025-01-01
LOOKS, EARLIER_LOOKS = (200, 40) if SOAK else (50, 15)
FILLED_S = 120.0
ASKED = None if SOAK else 2
"""How many queries are asked at each look; None: all of them."""
RARELY = 1.0 if SOAK else 1 / 400
"""Which share of the days a sensor with a reading a minute is on; one with a reading an hour is always on."""
LATE_SHARE, LATE_US = 0.03, 6 * HOUR_US
TABLE = (
    "CREATE TABLE probes (id INT PRIMARY KEY, site TEXT, reading STREAM (x DOUBLE, n INT))"
    " WITH (time = 'valid', out_of_order = 'accept')"
)
EXACT = ("COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)", "MIN(x)", "MAX(x)", "SUM(n)")
DEVIATION = "STDDEV(x)"


@dataclass(frozen=True)
class Asked:
    """One query in two dialects. The window is [NOW - begin, NOW - end]; `day`: one row per day."""

    keys: tuple[str, ...]
    calls: tuple[str, ...]
    begin_us: int
    end_us: int = 0
    where: str = ""
    day: bool = False

    @property
    def width(self) -> int:
        """How many columns are its key."""
        return len(self.keys) + self.day

    def ours(self) -> str:
        keys = (*self.keys, *(("TUMBLE(1 DAY)",) if self.day else ()))
        shown = (*self.keys, *(("window_start",) if self.day else ()))
        begin, end = (f"NOW - {us // SECOND_US} SECONDS" for us in (self.begin_us, self.end_us))
        return f"{self._select(shown, 'probes', keys)} BEGIN ({begin}) END ({end})"

    def theirs(self) -> str:
        """Parameters: the last push that counts, NOW, NOW."""
        keys = (*self.keys, *((f"us // {DAY_US} * {DAY_US}",) if self.day else ()))
        inside = f"push <= ? AND us >= ? - {self.begin_us} AND us <= ? - {self.end_us}"
        return self._select(keys, f"(SELECT * FROM readings WHERE {inside})", keys)

    def _select(self, shown: tuple[str, ...], source: str, keys: tuple[str, ...]) -> str:
        columns = [f"{expression} AS c{place}" for place, expression in enumerate((*shown, *self.calls))]
        where = f" WHERE {self.where}" if self.where else ""
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(columns)} FROM {source}{where}{by}"

    def by_key(self, rows: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        found = {row[: self.width]: row[self.width :] for row in rows}
        assert len(found) == len(rows)
        return found

    def nearly(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Only deviations are not exact."""
        pairs = zip(self.calls, values, strict=True)
        return tuple(pytest.approx(v, rel=1e-9, abs=1e-9) if call == DEVIATION else v for call, v in pairs)


QUERIES = {
    "hour": Asked(("id",), EXACT, HOUR_US),
    "hours": Asked(("id", "site"), EXACT, 7 * HOUR_US, where="n % 3 = 1"),
    "day": Asked(("site",), (*EXACT, DEVIATION), DAY_US),
    "days": Asked(("site",), EXACT, 40 * DAY_US, day=True),
    "month": Asked(("id",), EXACT, 30 * DAY_US),
    "month_before": Asked(("id",), ("COUNT(*)", "AVG(x)"), 60 * DAY_US, end_us=30 * DAY_US),
    "quarter": Asked((), (*EXACT, DEVIATION), 90 * DAY_US, where="x > 0"),
    "most_of_it": Asked(("id",), EXACT, 300 * DAY_US),
    "kinds": Asked(("site", "n % 4"), EXACT, 300 * DAY_US),
}
LATER = {
    "later": Asked(("id",), (*EXACT, DEVIATION), 200 * DAY_US),
    "later_where": Asked(("site",), EXACT, 100 * DAY_US, where="x < 50"),
}
"""Created when half of the year is over: they have to read it."""


@dataclass(frozen=True)
class Year:
    """All readings in the order in which they come, and where the pushes end."""

    rows: pa.Table
    ends: list[int]
    hours_us: list[int]

    def pushes(self) -> Iterator[tuple[int, pa.Table]]:
        """When each push comes, and its readings."""
        for first, end, hour_us in zip([0, *self.ends], self.ends, self.hours_us, strict=False):
            yield hour_us, self.rows.slice(first, end - first)


def year(seed: int) -> Year:
    rng = np.random.default_rng(seed)
    parts = [readings(rng, sensor) for sensor in range(SENSORS)]
    ids = np.repeat(np.arange(SENSORS, dtype=np.int32), [len(part) for part in parts])
    us = np.concatenate(parts)
    late = np.where(rng.random(len(us)) < LATE_SHARE, rng.exponential(LATE_US, len(us)), 0.0)
    comes = us + late.astype(np.int64)
    order = np.argsort(comes, kind="stable")
    hours = np.sort(rng.choice(np.arange(24, DAYS * 24), LOOKS, replace=False))
    hours_us = [BEGIN_US + int(hour) * HOUR_US for hour in hours]
    x = rng.integers(-400, 800, len(us)) / 8
    rows = pa.table(
        {
            "id": ids,
            "ts": pa.array(us).cast(pa.timestamp("us", tz="UTC")),
            "x": pa.array(x, mask=rng.random(len(us)) < 0.05),
            "n": rng.integers(0, 1000, len(us), dtype=np.int32),
        }
    )
    return Year(rows.take(order), np.searchsorted(comes[order], hours_us, side="right").tolist(), hours_us)


def readings(rng: np.random.Generator, sensor: int) -> np.ndarray:
    """Times in whole milliseconds, about a minute apart for the first sensor and about an hour for the last."""
    slow = sensor / (SENSORS - 1)
    gap_us = 60 * SECOND_US * 60**slow
    times = BEGIN_US + np.cumsum(rng.uniform(0.2, 1.8, int(DAYS * DAY_US / gap_us)) * gap_us).astype(np.int64)
    times = times // 1000 * 1000
    on = rng.random(DAYS * 2) < RARELY ** (1 - slow)
    return times[on[(times - BEGIN_US) // DAY_US]]


class Oracle:
    """DuckDB with the same rows."""

    def __init__(self, told: Year) -> None:
        self._db = duckdb.connect()
        push = np.searchsorted(told.ends, np.arange(told.rows.num_rows), side="right")
        us = told.rows["ts"].cast(pa.int64())
        rows = told.rows.drop_columns(["ts"]).append_column("us", us).append_column("push", pa.array(push))
        self._db.register("pushed", rows)
        self._db.execute(f"CREATE TABLE readings AS SELECT *, 'site ' || (id % {SITES}) AS site FROM pushed")

    def now_us(self, push: int) -> int:
        return int(self._ask("SELECT MAX(us) FROM readings WHERE push <= ?", push)[0][0])

    def answer(self, asked: Asked, push: int, now_us: int) -> list[tuple[Any, ...]]:
        return self._ask(asked.theirs(), push, now_us, now_us)

    def _ask(self, sql: str, *parameters: int) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, list(parameters)).fetchall()


def check(pipe: Pipe, oracle: Oracle, name: str, asked: Asked, push: int, cycle: int | None = None) -> None:
    found = pipe.db.standing.invoke(name, cycle)
    assert found.now_us == oracle.now_us(push), name
    columns = (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in found.table.columns)
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    right = asked.by_key(oracle.answer(asked, push, found.now_us or 0))
    assert asked.by_key(rows) == {key: asked.nearly(values) for key, values in right.items()}, (name, push, cycle)


@pytest.mark.parametrize("seed", range(3 if SOAK else 1))
def test_aggregates_over_an_hour_to_300_days_answer_as_duckdb_does(pipes: Callable[..., Pipe], seed: int) -> None:
    pipe = pipes(began_us=BEGIN_US)
    told, rng = year(seed), np.random.default_rng([seed, 1])
    oracle = Oracle(told)
    pipe.db.execute(TABLE)
    sensors = ", ".join(f"({number}, 'site {number % SITES}', NULL)" for number in range(SENSORS))
    pipe.db.execute(f"INSERT INTO probes VALUES {sensors}")
    known = dict(QUERIES)
    pipe.db.register([(name, asked.ours()) for name, asked in known.items()])
    cycles: list[int] = []
    for push, (hour_us, rows) in enumerate(told.pushes()):
        pipe.clock.set(hour_us)
        assert pipe.db.push("probes", rows).accepted == rows.num_rows
        pipe.engine.drain()
        cycles.append(pipe.db.standing.store.cycle)
        if push == LOOKS // 2:
            pipe.db.register([(name, asked.ours()) for name, asked in LATER.items()])
            pipe.engine.drain()
            assert all(pipe.db.standing.is_ready(name, FILLED_S) for name in LATER)  # workers slice so long a history
            known |= LATER
        if push == LOOKS * 3 // 4:
            pipe.restart()
        for name in rng.permutation(list(known))[:ASKED].tolist():
            check(pipe, oracle, name, known[name], push)
    for push in rng.integers(0, LOOKS, EARLIER_LOOKS).tolist():
        for name in rng.permutation(list(QUERIES))[:ASKED].tolist():
            check(pipe, oracle, name, QUERIES[name], push, cycles[push])
