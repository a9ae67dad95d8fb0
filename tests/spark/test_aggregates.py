"""Standing aggregations answer what Spark answers to the same text."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from penstock.database.database import Database
from penstock.sql.plan import AggregatePlan, plan_from_json
from tests.spark.asking import Rows, ask

CALLS = (
    "COUNT(*), COUNT(ppm), SUM(ppm), AVG(ppm), MIN(ppm), MAX(ppm), SUM(n), AVG(n), MIN(n), MAX(n), VAR_SAMP(ppm), VAR_POP(ppm),"
    " STDDEV(n), STDDEV_POP(ppm), CORR(ppm, n), COVAR_SAMP(ppm, n), COVAR_POP(ppm, n), MIN(ts), MAX(ts),"
    " SUM(ppm) FILTER (WHERE n > 3), COUNT(DISTINCT n), SUM(DISTINCT ppm), AVG(DISTINCT n), MEDIAN(ppm), PERCENTILE(n, 0.9),"
    " PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY ppm), MIN(site), MAX(site), COUNT(DISTINCT site), SUM(amount), MAX(amount),"
    " PERCENTILE_DISC(0.4) WITHIN GROUP (ORDER BY ppm), PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY n DESC) FILTER (WHERE n > 1),"
    " MODE() WITHIN GROUP (ORDER BY n), MODE() WITHIN GROUP (ORDER BY ppm DESC), EVERY(n > 0)"
)
RANKS = ", ".join(
    f"{name}() OVER (PARTITION BY COUNT(*) > 15 ORDER BY SUM(ppm) DESC)"
    for name in ("RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST")
)
SESSION_CALLS = "COUNT(*), SUM(ppm), AVG(n), MIN(ts), MAX(ts), STDDEV(n), MAX(amount), COUNT(DISTINCT n), MAX(ppm) FILTER (WHERE n > 1)"
WINDOW = "BEGIN ('2026-01-05 10:00:03.5') END ('2026-01-05 10:00:41')"
# The readings are of one minute; these lie in three centuries.
MOVED = "ts - '12345 DAYS'::INTERVAL * n"
PARTS = ", ".join(
    f"EXTRACT({part} FROM {MOVED})"
    for part in ("EPOCH", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE", "SECOND")
)
TRUNCATED = ", ".join(
    f"date_trunc('{unit}', {MOVED})"
    for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
)
FUNCTIONS = ", ".join(
    f"{name}({MOVED})"
    for name in ("YEAR", "QUARTER", "MONTH", "WEEKOFYEAR", "DAY", "DAYOFMONTH", "DAYOFYEAR", "HOUR", "MINUTE")
)
QUESTIONS = (
    *tuple(
        f"{text} {WINDOW}"
        for text in (
            f"SELECT {CALLS} FROM probes",
            f"SELECT site, {CALLS} FROM probes WHERE ppm > 0 GROUP BY site",
            f"SELECT {MOVED}, {PARTS}, {TRUNCATED}, {FUNCTIONS}, COUNT(*) FROM probes GROUP BY {MOVED}",
            "SELECT n IS DISTINCT FROM id, site IS NOT DISTINCT FROM 'north', COUNT(*) FILTER (WHERE ppm IS DISTINCT FROM 2.5)"
            " FROM probes GROUP BY n IS DISTINCT FROM id, site IS NOT DISTINCT FROM 'north'",
            f"SELECT n, site, {CALLS} FROM probes GROUP BY n, site HAVING COUNT(*) > 1",
            f"SELECT site, window_start, window_end, {CALLS} FROM probes GROUP BY site, TUMBLE(7 SECONDS)",
            f"SELECT window_start, window_end, {CALLS} FROM probes GROUP BY SLIDE(10 SECONDS, 4 SECONDS)",
        )
    ),
    f"SELECT site, window_start, window_end, {SESSION_CALLS} FROM probes GROUP BY site, SESSION(1 SECOND) {WINDOW}",
    f"SELECT window_start, window_end, {SESSION_CALLS} FROM probes GROUP BY SESSION(0.2 SECONDS) HAVING SUM(n) > 2 {WINDOW}",
    f"SELECT n, SUM(id) AS s, {RANKS} FROM probes GROUP BY n {WINDOW} ORDER BY n",
    f"SELECT n, site, COUNT(*) FROM probes GROUP BY n, site QUALIFY RANK() OVER (PARTITION BY site ORDER BY COUNT(*)) <= 2 {WINDOW}",
    f"SELECT n, LAG(COUNT(*), 2, 0) OVER (ORDER BY n) FROM probes GROUP BY n HAVING COUNT(*) > 1 QUALIFY"
    f" PERCENT_RANK() OVER (ORDER BY n) > 0.2 {WINDOW}",
    f"SELECT site, {CALLS} FROM probes WHERE ppm > 0 GROUP BY site BEGIN (LAST 20 ROWS)",
    f"SELECT site, {CALLS} FROM probes WHERE id < 3 GROUP BY site BEGIN (LAST 4 ROWS PER SENSOR)",
    "SELECT site, AVG(ppm, 20 SECONDS), MAX(n, 20 SECONDS), COUNT(DISTINCT n, 20 SECONDS) FROM probes GROUP BY site",
)


@pytest.mark.usefixtures("judge")
def test_the_same_text_has_the_same_answer_with_and_without_slices(db: Database) -> None:
    db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, site TEXT, reading STREAM (ppm DOUBLE, n INT, amount DECIMAL(12, 2)))"
        " WITH (time = 'valid', out_of_order = 'accept');"
        "INSERT INTO probes VALUES (1, 'north', NULL), (2, 'north', NULL), (3, NULL, NULL)"
    )
    for number, text in enumerate(QUESTIONS):
        db.execute(f"CREATE QUERY q{number} AS {text}")
        assert isinstance(plan_from_json(db.definition(f"q{number}").plan), AggregatePlan)
    chance = random.Random(5)
    for _ in range(3):
        db.push("probes", [reading(chance) for _ in range(60)])
    for number, text in enumerate(QUESTIONS):
        ours = answer_of(db, f"q{number}")
        spark = sorted(ask(db, text), key=repr)
        assert len(ours) == len(spark), (text, ours, spark)
        for mine, theirs in zip(ours, spark, strict=True):
            assert [about(v) for v in theirs] == list(mine), text


ISLANDS = """
SELECT site, MIN(ts), MAX(ts) + '1 SECOND'::INTERVAL, COUNT(*), SUM(ppm) FROM (
    SELECT site, ts, ppm, SUM(begins) OVER (PARTITION BY site ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS session FROM (
        SELECT site, ts, ppm, CASE WHEN ts - LAG(ts) OVER (PARTITION BY site ORDER BY ts) <= '1 SECOND'::INTERVAL THEN 0 ELSE 1 END AS begins
        FROM probes
    ) AS gaps
) AS islands GROUP BY site, session
"""


@pytest.mark.usefixtures("judge")
def test_sessions_are_the_islands_between_gaps(db: Database) -> None:
    db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, site TEXT, reading STREAM (ppm DOUBLE, n INT, amount DECIMAL(12, 2)))"
        " WITH (time = 'valid', out_of_order = 'accept');"
        "INSERT INTO probes VALUES (1, 'north', NULL), (2, 'north', NULL), (3, NULL, NULL)"
    )
    asked = "SELECT site, window_start, window_end, COUNT(*), SUM(ppm) FROM probes GROUP BY site, SESSION(1 SECOND)"
    db.execute(f"CREATE QUERY sessions AS {asked} BEGIN ('2026-01-05') END (NOW)")
    chance = random.Random(8)
    for _ in range(4):
        db.push("probes", [reading(chance) for _ in range(15)])
        ours, spark = answer_of(db, "sessions"), sorted(ask(db, ISLANDS), key=repr)
        assert len(ours) == len(spark) > 2
        for mine, theirs in zip(ours, spark, strict=True):
            assert [about(v) for v in theirs] == list(mine)


def reading(chance: random.Random) -> dict[str, Any]:
    ppm = chance.choice([None, float(chance.randint(-5, 5)), 2.5])
    second = chance.randint(0, 50)
    ts = f"2026-01-05T10:00:{second:02d}.{chance.randint(0, 999):03d}Z"
    amount = chance.choice([None, "0.01", "-9999999999.99", "12.50"])
    return {"id": chance.randint(1, 3), "ppm": ppm, "n": chance.choice([None, *range(6)]), "amount": amount, "ts": ts}


def answer_of(db: Database, name: str) -> Rows:
    db.wait_for_own_writes()
    return sorted((tuple(row.values()) for row in db.invoke(name).table.to_pylist()), key=repr)


def about(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return (
        pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True)
        if not math.isnan(value)
        else pytest.approx(value, nan_ok=True)
    )
