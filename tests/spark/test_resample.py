"""RESAMPLE says what brute force says, asked once and standing, with late readings: found in the log, and on Spark."""

from __future__ import annotations

import random

from penstock.database.database import Database
from tests.spark.asking import ask, at, eventually
from tests.sql.test_resample import SECOND, WAYS, Reading, rounded

WINDOW = "BEGIN ('2026-01-05 10:00:10') END ('2026-01-05 10:00:50')"
ASKED = (
    "SELECT t.n, t.id, RESAMPLE(v.ppm, 3 SECONDS) AS a, RESAMPLE(v.ppm, 8 SECONDS, LINEAR) AS b,"
    " RESAMPLE(v.ppm, 2 SECONDS, MEAN) AS c FROM times t, v WHERE v.id = t.id AND v.ppm <> 2.5 "
)
# The same, said so that nobody but Spark covers it.
ON_SPARK = ASKED.replace("<> 2.5", "<> 2.5 + 0 * t.n")


def test_values_at_the_times_of_another_stream(db: Database) -> None:
    options = "WITH (time = 'valid', out_of_order = 'accept')"
    db.execute(f"CREATE TABLE times (id INT PRIMARY KEY, tick STREAM (n INT)) {options}")
    db.execute(f"CREATE TABLE v (id INT PRIMARY KEY, reading STREAM (ppm DOUBLE)) {options}")
    for table in ("times", "v"):
        db.execute(f"INSERT INTO {table} VALUES (1, NULL), (2, NULL)")
    db.execute(f"CREATE QUERY q AS {ASKED} {WINDOW}")
    db.execute(f"CREATE QUERY on_spark AS {ON_SPARK} {WINDOW}")
    assert [db.query(name)["runs"] for name in ("q", "on_spark")] == ["log, when asked", "Spark SQL"]
    chance = random.Random(3)
    times: list[tuple[int, int, int]] = []
    values: list[Reading] = []
    for _ in range(2):
        for _ in range(30):
            times.append((chance.randint(1, 2), chance.randrange(60), len(times)))
            ppm = chance.choice([None, 1.0, 2.5, float(chance.randint(-9, 9))])
            values.append(Reading(chance.randrange(60) * SECOND, len(values), chance.randint(1, 2), ppm))
        # The end of both streams, so that NOW is past all of it.
        times.append((1, 70, len(times)))
        values.append(Reading(70 * SECOND, len(values), 1, 0.0))
        db.push("times", [{"id": i, "ts": at(s), "n": n} for i, s, n in times[-31:]])
        db.push("v", [{"id": r.key, "ts": at(r.ts / SECOND), "ppm": r.value} for r in values[-31:]])
        db.wait_for_own_writes()
        expected = []
        for sensor, second, n in times:
            if 10 <= second <= 50:
                near = [r for r in values if r.key == sensor and r.value is not None and r.value != 2.5]
                windows = {"PREVIOUS": 3, "LINEAR": 8, "MEAN": 2}
                found = [WAYS[way](near, second * SECOND, w * SECOND) for way, w in windows.items()]
                expected.append(rounded((n, sensor, *found)))
        for asked in (ASKED, ON_SPARK):
            assert sorted(map(rounded, ask(db, f"{asked} {WINDOW}"))) == sorted(expected)
        assert standing(db, "q") == sorted(expected)
        eventually(lambda: db.invoke("on_spark").table.num_rows > 0)
        eventually(lambda wanted=sorted(expected): standing(db, "on_spark") == wanted)  # type: ignore[misc]


def standing(db: Database, name: str) -> list[tuple[object, ...]]:
    return sorted(rounded(tuple(row.values())) for row in db.invoke(name).table.to_pylist())
