"""Joins of one task that read the same stream, one of them in parts: each gets all of its rows."""

from __future__ import annotations

from pathlib import Path

from penstock.operators.join.steps.units import SPREAD_ROWS
from tests.support.pipe import Pipe

FEW = 50


def test_a_join_beside_one_that_is_spread_over_tasks_finds_all_its_combinations(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "data")
    for table in ("busy", "calm"):
        pipe.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (k INT, v DOUBLE))")
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, '')")
    window = "WINDOW(a, b) = 1 SECONDS WHERE a.k = b.k BEGIN (NOW - 1 HOUR) END (NOW)"
    pipe.db.execute(f"CREATE QUERY spread AS SELECT a.k, b.v FROM busy a, calm b {window}")
    pipe.db.execute(f"CREATE QUERY whole AS SELECT a.k, b.v FROM calm a, calm b {window}")
    pipe.engine.drain()
    pipe.db.push("busy", [{"id": 1, "k": -k, "v": 0.0} for k in range(1, SPREAD_ROWS + 1)])
    pipe.db.push("calm", [{"id": 1, "k": k, "v": float(k)} for k in range(FEW)])
    pipe.engine.drain()
    assert sorted(pipe.answer("whole", "k")) == list(range(FEW))
    pipe.db.stop()
