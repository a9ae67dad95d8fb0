"""Conditions that hold: WHERE ... FOR 30 SECONDS, against the definition by brute force, on Spark."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.database.database import Database
from tests.oracle.holds import Reading, held
from tests.spark.asking import answer, ask, eventually, make_meters, push

Holds = Callable[[Reading], bool]
ABOVE = "n > 5 FOR 10 SECONDS"


def above(reading: Reading) -> bool:
    return reading.value is not None and reading.value > 5


def send(db: Database, log: list[Reading], *readings: tuple[int, float, int | None]) -> None:
    push(db, *readings)  # type: ignore[arg-type]
    log += [Reading(len(log) + i, m, s, n) for i, (m, s, n) in enumerate(readings)]


def test_a_condition_is_true_once_it_has_held_long_enough_and_a_break_begins_it_anew(db: Database) -> None:
    make_meters(db)
    push(db, (1, 0, 9), (2, 0, 9), (1, 6, 9), (2, 6, 1), (1, 10, 8), (2, 10, 7), (1, 14, 7), (2, 14, 6), (2, 21, 6))
    assert ask(db, f"SELECT id, n FROM meters WHERE {ABOVE} ORDER BY ts, id") == [(1, 8), (1, 7), (2, 6)]
    counted = "SELECT id, COUNT(*) AS c FROM meters WHERE site = 'north' AND n > 5 FOR 10 SECONDS GROUP BY id"
    assert ask(db, counted) == [(1, 2)]
    assert ask(db, f"SELECT COUNT(ts) FROM meters WHERE NOT ({ABOVE})") == [(6,)]


def test_a_late_reading_breaks_what_seemed_to_hold_and_another_mends_it(db: Database) -> None:
    make_meters(db, accept=True)
    db.execute(f"CREATE QUERY alarm AS SELECT id, n FROM meters WHERE {ABOVE} BEGIN (NOW - 1 HOUR) END (NOW)")
    push(db, (1, 0, 9), (1, 8, 9), (1, 12, 9))
    eventually(lambda: answer(db, "alarm") == [(1, 9)])
    push(db, (1, 5, 1))
    eventually(lambda: answer(db, "alarm") == [])
    push(db, (1, 20, 7))
    eventually(lambda: answer(db, "alarm") == [(1, 7)])
    assert db.query("alarm")["runs"] == "shared pass"


def test_the_window_cuts_what_is_shown_not_what_is_looked_at(db: Database) -> None:
    make_meters(db)
    db.execute(f"CREATE QUERY short AS SELECT id, n FROM meters WHERE {ABOVE} BEGIN (NOW - 1 SECOND) END (NOW)")
    db.execute(f"CREATE QUERY newest AS SELECT id, n FROM meters WHERE {ABOVE} BEGIN (LAST 1 ROWS PER SENSOR)")
    push(db, (1, 0, 9), (2, 0, 9), (2, 11, 2), (1, 300, 8))
    for name in ("short", "newest"):
        eventually(lambda name=name: answer(db, name) == [(1, 8)])  # type: ignore[misc]
    push(db, (2, 320, 9))
    eventually(lambda: answer(db, "short") == [])
    assert [tuple(r.values()) for r in db.invoke("short", "NOW - 20 SECONDS").table.to_pylist()] == [(1, 8)]


@pytest.mark.parametrize("seed", range(6 if os.environ.get("PENSTOCK_SOAK") else 1))
def test_standing_and_one_shot_answers_are_what_the_definition_says(db: Database, seed: int) -> None:
    rng = random.Random(seed)
    make_meters(db, accept=True)
    questions: list[tuple[str, Holds, float]] = [
        ("n > 5 FOR 10 SECONDS", above, 10),
        ("(n > 5 OR n IS NULL) FOR 4 SECONDS", lambda r: r.value is None or r.value > 5, 4),
        ("n % 4 <> 0 FOR 500 MS", lambda r: r.value is not None and r.value % 4 != 0, 0.5),
    ]
    for number, (text, _, _) in enumerate(questions):
        db.execute(
            f"CREATE QUERY q{number} AS SELECT id, n FROM meters WHERE {text} BEGIN (NOW - 30 SECONDS) END (NOW)"
        )
    log: list[Reading] = []
    for _ in range(2):
        batch = [
            (rng.choice((1, 2)), rng.randrange(0, 120) / 2, rng.choice((None, 1, 6, 7, 8, 9)))
            for _ in range(rng.randrange(20, 60))
        ]
        send(db, log, *batch)
        for number, (text, holds, seconds) in enumerate(questions):
            expected = held(log, holds, seconds)
            found = ask(db, f"SELECT id, n FROM meters WHERE {text}")
            assert _sorted(found) == _sorted((r.sensor, r.value) for r in expected), text
            wanted = _sorted(_cut(expected, log))
            eventually(lambda n=number, w=wanted: _sorted(_rows(db, f"q{n}")) == w)  # type: ignore[misc]


def _cut(expected: Sequence[Reading], log: Sequence[Reading]) -> list[tuple[Any, ...]]:
    newest = max(r.seconds for r in log)
    return [(r.sensor, r.value) for r in expected if r.seconds >= newest - 30]


def _rows(db: Database, name: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in db.invoke(name).table.to_pylist()]


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(value is None, value or 0) for value in row])
