"""Window functions over readings, and QUALIFY, answer in the cycle what Spark answers to the same text."""

from __future__ import annotations

import random

import pytest

from penstock.database.database import Database
from penstock.sql.plan import plan_from_json
from tests.spark.asking import ask
from tests.spark.test_aggregates import about, answer_of

WINDOW = "BEGIN ('2026-01-05 10:00:03.5') END ('2026-01-05 10:00:41')"
OVER = "OVER (PARTITION BY site ORDER BY ts)"
QUESTIONS = (
    "SELECT id, ts, ppm FROM probes QUALIFY ROW_NUMBER() OVER (PARTITION BY site ORDER BY ppm DESC, ts) <= 3",
    "SELECT id, ts, ppm, RANK() OVER (PARTITION BY n ORDER BY ppm) AS r FROM probes WHERE id < 3 QUALIFY r <= 2",
    "SELECT id, ts, DENSE_RANK() OVER (ORDER BY n DESC), PERCENT_RANK() OVER (PARTITION BY site ORDER BY ppm) FROM probes",
    f"SELECT id, ts, ppm - LAG(ppm) {OVER}, LEAD(n, 2, -1) {OVER} FROM probes WHERE n > 0",
    f"SELECT id, ts FROM probes QUALIFY ppm > LAG(ppm) {OVER} OR LEAD(ts, 16) {OVER} IS NULL",
    "SELECT id, CUME_DIST() OVER (PARTITION BY site ORDER BY n) AS c, NTILE(3) OVER (ORDER BY ts) FROM probes ORDER BY c, id",
)


@pytest.mark.usefixtures("judge")
def test_the_same_text_has_the_same_answer_in_the_cycle_and_in_spark(db: Database) -> None:
    db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, site TEXT, reading STREAM (ppm DOUBLE, n INT))"
        " WITH (time = 'valid', out_of_order = 'accept');"
        "INSERT INTO probes VALUES (1, 'north', NULL), (2, 'north', NULL), (3, NULL, NULL)"
    )
    for number, text in enumerate(QUESTIONS):
        db.execute(f"CREATE QUERY q{number} AS {_at(text)}")
        assert plan_from_json(db.definition(f"q{number}").plan).operator == "window_functions"
    chance = random.Random(5)
    times = chance.sample(range(50_000), 180)  # Spark has no order among readings of the same time
    for part in range(3):
        readings = []
        for ms in times[part * 60 : part * 60 + 60]:
            ppm = chance.choice([None, float("nan"), -0.0, float(chance.randint(-5, 5)), 2.5])
            ts = f"2026-01-05T10:00:{ms // 1000:02d}.{ms % 1000:03d}Z"
            readings.append({"id": chance.randint(1, 3), "ppm": ppm, "n": chance.choice([None, *range(6)]), "ts": ts})
        db.push("probes", readings)
    for number, text in enumerate(QUESTIONS):
        ours, spark = answer_of(db, f"q{number}"), sorted(ask(db, _at(text)), key=repr)
        assert len(ours) == len(spark) > 0, text
        for mine, theirs in zip(ours, spark, strict=True):
            assert [about(value) for value in theirs] == list(mine), text


def _at(text: str) -> str:
    """With its window, which stands before ORDER BY."""
    head, order, rest = text.partition(" FROM probes ORDER BY ")
    return f"{head} FROM probes {WINDOW} ORDER BY {rest}" if order else f"{text} {WINDOW}"
