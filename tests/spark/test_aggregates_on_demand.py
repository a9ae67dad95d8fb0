"""Aggregates over a query's answer, both ways: from the trees that are kept over it, and as Spark SQL."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import pyarrow as pa
import pytest

from penstock.database.database import Database
from penstock.sql import statements as st
from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan
from penstock.statements.select import plan_of
from tests.spark.asking import at

TABLE = (
    "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT, r STREAM (x DOUBLE, n INT, big BIGINT, word TEXT))"
    " WITH (time = 'valid', out_of_order = 'accept')"
)
ASKED = (
    "SELECT COUNT(*) AS rows, COUNT(x) AS known, SUM(x), AVG(x), MIN(x), MAX(x), SUM(n) AS sn, AVG(n) AS an,"
    " MAX(n) - MIN(n) AS spread, SUM(big) AS sb, AVG(big) AS ab, MIN(ts) AS first, MAX(ts) AS last,"
    " MAX(ts) - MIN(ts) AS took, COUNT(word) AS words, SUM(n + 1) / COUNT(*) AS shifted, AVG(x) / MAX(n) AS ratio"
)
TURNS = 3
EMPTY = f"BEGIN ('{at(500)}') END ('{at(501)}')"
WINDOWS = (
    "",
    "BEGIN (NOW - 5 SECONDS) END (NOW)",
    "BEGIN (NOW - 20 SECONDS) END (NOW - 4 SECONDS)",
    f"BEGIN ('{at(3)}') END ('{at(9.5)}')",
    EMPTY,
)


def windows_of(turn: int) -> tuple[str, ...]:
    """All windows after the last push, every other one before; all of them each time in `make soak`."""
    return WINDOWS if turn == TURNS - 1 or os.environ.get("PENSTOCK_SOAK") else WINDOWS[turn % 2 :: 2]


def both(db: Database, sql: str) -> tuple[pa.Table, pa.Table]:
    """What trees and what Spark say of the same cycle."""
    db.wait_for_own_writes()
    (statement,) = parse_script(sql)
    assert isinstance(statement, st.Select)
    plan = plan_of(db, statement, standing=False)
    assert isinstance(plan, SparkPlan)
    for _ in range(20):
        ours, theirs = db.on_demand.answer(plan), db.evaluator.run(plan, None)
        if ours.cycle == theirs.cycle:
            assert ours.now_us == theirs.now_us
            return ours.table, theirs.table
    raise AssertionError("cycles came faster than Spark's answers")


def check(db: Database, sql: str) -> dict[str, Any]:
    ours, theirs = both(db, sql)
    assert ours.schema == theirs.schema
    (mine,), (other,) = ours.to_pylist(), theirs.to_pylist()
    assert mine.keys() == other.keys()
    for name, value in other.items():
        wanted = pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True) if isinstance(value, float) else value
        assert mine[name] == wanted, (name, sql)
    return {**mine}


def values(rng: random.Random, odd: bool) -> dict[str, Any]:
    known: dict[str, Any] = {
        "x": rng.choice([math.nan, math.inf]) if odd and rng.random() < 0.05 else round(rng.uniform(-50, 50), 3),
        "n": rng.randint(-1000, 1000),
        "big": rng.randint(-(2**62), 2**62) if odd else rng.randint(0, 9),
        "word": rng.choice(["a", "b"]),
    }
    return {name: value if rng.random() > 0.1 else None for name, value in known.items()}


@pytest.mark.parametrize("odd", [False, True])
def test_a_selections_aggregates_are_those_of_spark(db: Database, odd: bool) -> None:
    rng = random.Random(int(odd))
    db.execute(TABLE)
    db.execute("INSERT INTO probes VALUES (1, 'north', NULL), (2, 'south', NULL)")
    db.execute(
        "CREATE QUERY seen AS SELECT x, n, big, word FROM probes WHERE n > -500 BEGIN (NOW - 3 SECONDS) END (NOW)"
    )
    for turn in range(TURNS):
        rows = [
            {"id": 1 + i % 2, "ts": at(turn * 5 + i * 0.05 - rng.random() + 1), **values(rng, odd)} for i in range(100)
        ]
        assert db.push("probes", rows).accepted == len(rows)
        for window in windows_of(turn):
            found = check(db, f"{ASKED} FROM seen {window}")
            if window == EMPTY:
                assert found["rows"] == 0 and found["sn"] is None
    assert check(db, f"{ASKED} FROM seen")["rows"] > 100


def test_a_joins_aggregates_are_those_of_spark_inside_the_readers_window_too(db: Database) -> None:
    rng = random.Random(3)
    db.execute(TABLE)
    db.execute("INSERT INTO probes VALUES (1, 'north', NULL), (2, 'south', NULL)")
    db.execute(
        "CREATE QUERY pairs AS SELECT a.n AS n, b.x AS x, b.big AS big, b.word AS word, ts FROM probes a, probes b"
        " WINDOW(a, b) = 1 SECOND WHERE a.id = 1 AND b.id = 2 AND a.n < b.n BEGIN (NOW - 8 SECONDS) END (NOW)"
    )
    for turn in range(TURNS):
        rows = [{"id": 1 + i % 2, "ts": at(turn * 5 + i * 0.1), **values(rng, False)} for i in range(50)]
        assert db.push("probes", rows).accepted == len(rows)
        for window in windows_of(turn):
            check(db, f"{ASKED} FROM pairs {window}")
    own = check(db, f"{ASKED} FROM pairs")["rows"]
    cut = check(db, f"{ASKED} FROM pairs BEGIN (NOW - 2 SECONDS) END (NOW)")["rows"]
    assert own > cut > 10
    # Another way to ask runs as Spark SQL and sees the same window.
    grouped = db.execute("SELECT word, COUNT(*) AS c FROM pairs GROUP BY word BEGIN (NOW - 2 SECONDS) END (NOW)")
    assert sum(grouped.table.column("c").to_pylist()) == cut
