"""What stands on a window join, on real Spark: each answer equals the same SQL as a batch over the same log."""

from __future__ import annotations

import os

import numpy as np
import pytest

from penstock.database.database import Database
from penstock.operators.sparksql import join_rows
from tests.spark.asking import Rows, ask, eventually, rows_of
from tests.spark.test_joins import joined, push_piece

__all__ = ["joined"]
SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
PAIRS = "FROM j0 a, j1 b WINDOW(a,b) = 1 SECOND WHERE a.k = b.k"
TOPPED = {
    "grouped": f"SELECT a.k, COUNT(*) AS n, SUM(b.n) AS total, MIN(ts_min) AS first, MAX(ts) AS last {PAIRS}"
    f" GROUP BY a.k HAVING COUNT(*) > 1 {WINDOW}",
    "busiest": f"SELECT a.k, COUNT(*) AS n {PAIRS} GROUP BY a.k {WINDOW} ORDER BY n DESC, a.k LIMIT 3",
    "whole": f"SELECT COUNT(*) AS n {PAIRS} {WINDOW}",
    "distinct_ones": f"SELECT DISTINCT a.site, b.tag {PAIRS} AND a.x < b.x {WINDOW}",
    "first_ones": f"SELECT a.n AS a, b.n AS b, gap(a.x, b.x) AS gap {PAIRS} {WINDOW} ORDER BY a.n, b.n LIMIT 7",
    "ranked": f"SELECT a.k, a.n AS a, b.n AS b, ROW_NUMBER() OVER (PARTITION BY a.k ORDER BY a.n, b.n) AS place"
    f" {PAIRS} {WINDOW}",
    "by_second": f"SELECT window_start, COUNT(*) AS n {PAIRS} GROUP BY TUMBLE(1 SECOND) {WINDOW}",
    "nested": f"SELECT t.k, MAX(t.d) AS d FROM (SELECT a.k, b.n - a.n AS d {PAIRS}) t GROUP BY t.k {WINDOW}",
    "unpaired": "SELECT COUNT(*) AS n, MAX(a.n) AS most FROM j1 a LEFT JOIN j2 b ON a.k = b.k AND b.x > 50"
    f" WINDOW(a,b) = 500 MS WHERE b.n IS NULL {WINDOW}",
    "silent": "SELECT a.site, COUNT(*) AS n FROM j0 a WHERE"
    f" NOT EXISTS (SELECT 1 FROM j1 b WHERE b.k = a.k DWINDOW(a,b) = 2 SECONDS) GROUP BY a.site {WINDOW}",
    "zoned": f"SELECT z.label, COUNT(*) AS n FROM (SELECT a.k, a.site {PAIRS}) t, regions z WHERE z.site = t.site"
    f" GROUP BY z.label {WINDOW}",
}
SLICED = ("grouped", "busiest", "whole", "distinct_ones", "by_second")


def settled(db: Database, name: str) -> Rows:
    """A query's answer once it stands for everything that was pushed before."""
    db.wait_for_own_writes()
    cycle = db.standing.store.cycle
    eventually(lambda: db.invoke(name).cycle >= cycle, timeout_s=120)
    return ordered(rows_of(db.invoke(name).table))


def ordered(rows: Rows) -> Rows:
    return sorted(rows, key=lambda r: tuple((v is not None, v) for v in r))


@pytest.fixture(autouse=True)
def any_staleness(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many at once are refused where Spark is slow; here they may wait for each other."""
    monkeypatch.setattr("penstock.operators.sparksql.evaluator.STALENESS_MAX_S", 1e9)


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize("in_memory", [200_000, 0], ids=["in memory", "in files"])
def test_what_stands_on_a_join_equals_the_same_sql_as_a_batch(
    db: Database, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_rows, "IN_MEMORY_ROWS", in_memory)
    monkeypatch.setattr(join_rows, "PIECE_ROWS", 64)
    rng = np.random.default_rng(21)
    db.execute("CREATE TABLE regions (site TEXT PRIMARY KEY, label TEXT)")
    db.execute("INSERT INTO regions VALUES ('north', 'cold'), ('south', 'warm')")
    push_piece(db, rng, 0, 100)
    # A query of Spark SQL is tried as of a cycle that knows its functions.
    eventually(lambda: "gap" in db.standing.store.state.functions, timeout_s=120)
    # Of the queries above, every other one; `make soak` takes all of them both ways.
    asked = dict(list(TOPPED.items()) if SOAK else list(TOPPED.items())[bool(in_memory) :: 2])
    for name, sql in asked.items():
        db.execute(f"CREATE QUERY {name} AS {sql}")
        how = "slices" if name in SLICED else "Spark SQL"
        assert db.query(name)["runs"] == f"window join, then {how}", name
    push_piece(db, rng, 1, 100)
    for name, sql in asked.items():
        found = settled(db, name)
        assert found == ordered(ask(db, sql)), name
        assert found, f"{name} tests nothing"


@pytest.mark.usefixtures("joined")
def test_a_reader_of_a_join_equals_the_aggregate_over_the_join(db: Database) -> None:
    rng = np.random.default_rng(22)
    db.execute("CREATE TABLE regions (site TEXT PRIMARY KEY, label TEXT)")
    db.execute("INSERT INTO regions VALUES ('north', 'cold'), ('south', 'warm')")
    db.execute(f"CREATE QUERY pairs AS SELECT a.k, a.site, b.n {PAIRS}")
    db.execute(f"CREATE QUERY counted AS SELECT k, COUNT(*) AS n, MIN(ts_min) AS first, MAX(ts) AS last FROM pairs"
               f" WHERE n > 3 GROUP BY k {WINDOW}")  # fmt: skip
    db.execute(f"CREATE QUERY labelled AS SELECT z.label, COUNT(*) AS n FROM pairs p JOIN regions z ON z.site = p.site"
               f" GROUP BY z.label {WINDOW}")  # fmt: skip
    for piece in range(3):
        push_piece(db, rng, piece, 100)
    batch = (
        f"SELECT a.k, COUNT(*) AS n, MIN(ts_min) AS first, MAX(ts) AS last {PAIRS} AND b.n > 3 GROUP BY a.k {WINDOW}"
    )
    expected = ordered(ask(db, batch))
    eventually(lambda: settled(db, "counted") == expected, timeout_s=120)
    assert len(expected) > 10
    labels = f"SELECT z.label, COUNT(*) AS n FROM j0 a, j1 b, regions z WINDOW(a,b) = 1 SECOND" \
             f" WHERE a.k = b.k AND z.site = a.site GROUP BY z.label {WINDOW}"  # fmt: skip
    assert settled(db, "labelled") == ordered(ask(db, labels))
