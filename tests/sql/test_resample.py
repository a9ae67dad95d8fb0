"""RESAMPLE as it is written out for Spark, run on SQLite over random readings, against brute force."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.expr.windows import Bound, TimeWindow
from tests.sql.world import plant

SECOND = 1_000_000


@dataclass
class Reading:
    """One reading of the stream that is resampled; `position` says when it came."""

    ts: int
    position: int
    key: int
    value: float | None


def previous(readings: list[Reading], at: int, us: int) -> float | None:
    """The newest of those that are not later, and not more than `us` earlier; of the same time the last to come."""
    near = [r for r in readings if at - us <= r.ts <= at]
    return max(near, key=lambda r: (r.ts, r.position)).value if near else None


def linear(readings: list[Reading], at: int, us: int) -> float | None:
    """The line between the nearest before and the nearest after; what is there at the time itself, if it is."""
    before = [r for r in readings if at - us <= r.ts <= at]
    after = [r for r in readings if at <= r.ts <= at + us]
    if not before or not after:
        return None
    low = max(before, key=lambda r: (r.ts, r.position))
    high = min(after, key=lambda r: (r.ts, -r.position))
    assert low.value is not None and high.value is not None
    if low.ts == at:
        return low.value
    return low.value + (high.value - low.value) * ((at - low.ts) / (high.ts - low.ts))


def mean(readings: list[Reading], at: int, us: int) -> float | None:
    near = [r.value for r in readings if abs(r.ts - at) <= us and r.value is not None]
    return sum(near) / len(near) if near else None


WAYS = {"PREVIOUS": previous, "LINEAR": linear, "MEAN": mean}


class _Best:
    """max_by and min_by: SQLite has neither."""

    sign = 1

    def __init__(self) -> None:
        self.found: tuple[str, Any] | None = None

    def step(self, value: Any, key: str) -> None:
        better = self.found is None or (key > self.found[0] if self.sign > 0 else key < self.found[0])
        if better:
            self.found = (key, value)

    def finalize(self) -> Any:
        return self.found[1] if self.found is not None else None


class _Least(_Best):
    sign = -1


class _Any:
    def __init__(self) -> None:
        self.found: Any = None

    def step(self, value: Any) -> None:
        self.found = value

    def finalize(self) -> Any:
        return self.found


@pytest.fixture
def sqlite() -> sqlite3.Connection:
    """SQLite with the functions of Spark that the text calls. Times are microseconds there."""
    db = sqlite3.connect(":memory:")
    db.create_function("unix_micros", 1, lambda us: us)
    db.create_function("struct", 2, lambda a, b: f"{a + 2**40:020d} {b + 2**40:020d}")
    db.create_aggregate("max_by", 2, _Best)
    db.create_aggregate("min_by", 2, _Least)
    db.create_aggregate("any_value", 1, _Any)
    return db


@pytest.mark.parametrize("seed", range(12))
def test_written_out_it_says_what_brute_force_says(sqlite: sqlite3.Connection, seed: int) -> None:
    chance = random.Random(seed)
    span = chance.choice([20, 60])
    values = [
        Reading(chance.randrange(span) * SECOND, position, chance.randint(1, 2), chance.choice([None, 1.0, 2.5, -7.0]))
        for position in range(chance.choice([0, 5, 60]))
    ]
    times = [(chance.randrange(span) * SECOND, position, chance.randint(1, 3)) for position in range(25)]
    windows = {way: chance.choice([1, 3, 10]) * SECOND for way in WAYS}
    calls = ", ".join(f"RESAMPLE(s.ppm, {us // SECOND} SECONDS, {way}) AS {way.lower()}" for way, us in windows.items())
    least = chance.choice([None, 0.0])
    more = "" if least is None else f" AND (RESAMPLE(s.ppm, 3 SECONDS, MEAN) > {least} OR l.loop_id = 1)"
    plan = plant().spark(
        f"SELECT l.ts AS at, l.loop_id AS k, {calls} FROM loops l, sensors s"
        f" WHERE s.sensor_id = l.loop_id AND s.ppm <> 2.5 AND l.loop_id < 3{more}"
    )
    sqlite.execute("CREATE TABLE a (ts INTEGER, _pos INTEGER, loop_id INTEGER)")
    sqlite.execute("CREATE TABLE b (ts INTEGER, _pos INTEGER, sensor_id INTEGER, ppm REAL)")
    sqlite.executemany("INSERT INTO a VALUES (?, ?, ?)", times)
    sqlite.executemany("INSERT INTO b VALUES (?, ?, ?, ?)", [(r.ts, r.position, r.key, r.value) for r in values])
    ours = sqlite.execute(plan.sql.replace("IDENTIFIER(:r0)", "a").replace("IDENTIFIER(:r1)", "b")).fetchall()
    theirs = []
    for at, _, key in times:
        counted = [r for r in values if r.key == key and r.value is not None and r.value != 2.5]
        found = [WAYS[way](counted, at, us) for way, us in windows.items()]
        middle = mean(counted, at, 3 * SECOND)
        if key < 3 and (least is None or key == 1 or (middle is not None and middle > least)):
            theirs.append((at, key, *found))
    assert sorted(map(rounded, ours), key=repr) == sorted(map(rounded, theirs), key=repr), plan.sql


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(v, 9) + 0.0 if isinstance(v, float) else v for v in row)


def test_begin_and_end_are_about_the_times_that_are_asked_for() -> None:
    asked = "SELECT l.ts, RESAMPLE(s.ppm, 30 SECONDS) AS p FROM loops l, sensors s"
    plan = plant().spark(f"{asked} BEGIN (NOW - 10 MINUTES) END (NOW)")
    assert [str(r.window) for r in plan.relations] == [
        "BEGIN (NOW - 10m) END (NOW)",
        "BEGIN (NOW - 10m30s) END (NOW + 30s)",
    ]
    plan = plant().spark(f"{asked} BEGIN (NOW - 10 MINUTES) END (NOW) BEGIN (NOW - 1 HOUR) END (NOW) FOR s")
    assert plan.relations[1].window == TimeWindow(Bound("now", -3600 * SECOND), Bound("now"))
