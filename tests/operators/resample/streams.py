"""Two streams of which one is resampled at the other's readings, what came of them, and what that makes by brute force."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from penstock.clock import SECOND, format_timestamp
from tests.spark.asking import rows_of
from tests.sql.test_resample import WAYS, Reading, rounded
from tests.support.pipe import Pipe

BEGAN_US = 1_763_189_000_000_000
OPTIONS = "WITH (time = 'valid', out_of_order = 'accept')"
WITHIN = {"PREVIOUS": 3, "LINEAR": 8, "MEAN": 2}
CALLS = ", ".join(f"RESAMPLE(v.ppm, {s} SECONDS, {way}) AS {way.lower()}" for way, s in WITHIN.items())
ASKED = f"SELECT t.n, t.id, {CALLS} FROM times t, v WHERE v.id = t.id AND v.ppm <> 2.5"
WINDOW = "BEGIN (NOW - 40 SECONDS) END (NOW)"
Row = tuple[Any, ...]


class World:
    """Two streams of two sensors each, what came of them, and what that makes."""

    def __init__(self, pipes: Callable[..., Pipe], seed: int = 1, **settings: Any) -> None:
        self.pipe = pipes(**settings)
        self.chance = random.Random(seed)
        self.times: list[tuple[int, int, int]] = []  # when, which sensor, which number
        self.values: list[Reading] = []
        self.execute(f"CREATE TABLE times (id INT PRIMARY KEY, tick STREAM (n INT)) {OPTIONS}")
        self.execute(f"CREATE TABLE v (id INT PRIMARY KEY, place TEXT, reading STREAM (ppm DOUBLE)) {OPTIONS}")
        self.execute("INSERT INTO times VALUES (1, NULL), (2, NULL)")
        self.execute("INSERT INTO v VALUES (1, 'north', NULL), (2, 'south', NULL)")

    def execute(self, sql: str) -> None:
        self.pipe.db.execute(sql)
        self.pipe.engine.drain()

    def push(self, low: int, high: int, count: int = 20) -> None:
        """Readings of both at whole seconds, many at the same, in any order; the last of each at `high`."""
        chance = self.chance
        seconds = [chance.randint(low, high) for _ in range(count)]
        times = [(s, chance.randint(1, 2), len(self.times) + i) for i, s in enumerate([*seconds, high])]
        values = [
            Reading(s, len(self.values) + i, chance.randint(1, 2), chance.choice([None, 2.5, 1.0, float(i)]))
            for i, s in enumerate([*(chance.randint(low, high) for _ in range(count)), high])
        ]
        self.put(times, values)

    def put(self, times: list[tuple[int, int, int]], values: list[Reading]) -> None:
        self.times += times
        self.values += values
        if times:
            self.pipe.db.push("times", [{"id": i, "ts": at(s), "n": n} for s, i, n in times])
        if values:
            self.pipe.db.push("v", [{"id": r.key, "ts": at(r.ts), "ppm": r.value} for r in values])
        self.pipe.engine.drain()

    def now(self) -> int:
        return min(max(s for s, _, _ in self.times), max(r.ts for r in self.values))

    def expected(self, back: int = 40, keyed: bool = True, now: int | None = None) -> list[Row]:
        now = self.now() if now is None else now
        rows = []
        for second, sensor, n in self.times:
            if now - back <= second <= now:
                near = [r for r in self.values if r.value not in (None, 2.5) and (not keyed or r.key == sensor)]
                rows.append((n, sensor, *(WAYS[way](near, second, s) for way, s in WITHIN.items())))
        return sorted(map(rounded, rows), key=repr)

    def answer(self, name: str = "q", as_of: int | str | None = None) -> list[Row]:
        return in_order(rows_of(self.pipe.db.invoke(name, as_of).table))


def at(second: float) -> str:
    return format_timestamp(BEGAN_US + int(second * SECOND))


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(map(rounded, rows), key=repr)


def heard(subscription: Any) -> list[Row]:
    rows: list[Row] = []
    while (event := subscription.next(0.0)) is not None:
        rows += rows_of(event.table)
    return rows
