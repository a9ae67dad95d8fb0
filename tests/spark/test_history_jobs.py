"""What an answer may not read in the server, Spark's workers read: the answer is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.database.database import Database
from tests.spark.asking import answer, rows_of

MOST, ROWS = 100, 4000
BEGAN_US = 1_767_607_200_000_000


@pytest.fixture
def small(db: Database) -> Iterator[Database]:
    """The shared database with a small answer_read_max_rows, and with readings of a minute."""
    settings, db.standing.settings = db.standing.settings, replace(db.standing.settings, answer_read_max_rows=MOST)
    db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT, reading STREAM (value DOUBLE))"
        " WITH (time = 'valid', out_of_order = 'accept'); INSERT INTO probes VALUES (1, 'north', NULL), (2, 'south', NULL)"
    )
    ts = pa.array([BEGAN_US + n * 15_000 for n in range(ROWS)], pa.timestamp("us", "UTC"))
    ids, values = pa.array([1 + n % 2 for n in range(ROWS)], pa.int32()), pa.array([float(n % 7) for n in range(ROWS)])
    db.push("probes", pa.table({"id": ids, "ts": ts, "value": values}))
    db.wait_for_own_writes()  # a query that comes in the same cycle would meet them as new rows
    yield db
    db.standing.settings = settings


def test_workers_read_the_history_of_an_aggregate(small: Database) -> None:
    registry = small.standing.reads.registry
    before = registry.get_sample_value("penstock_answer_jobs_total") or 0.0
    values = {place: [float(n % 7) for n in range(ROWS) if n % 2 == at] for at, place in ((0, "north"), (1, "south"))}
    expected = [(place, len(v), sum(v), max(v)) for place, v in values.items()]
    text = "SELECT place, COUNT(*) AS n, SUM(value) AS s, MAX(value) AS high FROM probes GROUP BY place"
    small.execute(f"CREATE QUERY totals AS {text} BEGIN (NOW - 1 HOUR) END (NOW)")
    small.wait_for_own_writes()
    assert small.standing.is_ready("totals", 60.0)
    assert answer(small, "totals") == expected
    once = small.execute(
        "SELECT place, COUNT(*) AS n, SUM(value) AS s, MAX(value, 1 HOUR) AS high FROM probes GROUP BY place"
    )
    assert sorted(rows_of(once.table)) == expected and "Spark read them" in once.notices[0]
    # One job for the standing query's history, and one for each window of the other.
    assert registry.get_sample_value("penstock_answer_jobs_total") == before + 3


def test_workers_read_the_rows_of_a_join_that_others_count(small: Database) -> None:
    """For aggregates over it, for a tree over its answer, and for Spark SQL; the join's own rows are its answer."""
    window, reads = "BEGIN (NOW - 1 HOUR) END (NOW)", small.standing.reads
    alike = f"FROM probes a, probes b WINDOW(a, b) = 0 SECONDS WHERE a.id = b.id AND a.value > 3 {window}"
    jobs = reads.registry.get_sample_value("penstock_answer_jobs_total") or 0.0
    reads.most = 0  # tests before this one had other limits on the same server
    small.execute(f"CREATE QUERY pairs AS SELECT a.place, b.value {alike}")
    small.execute(f"CREATE QUERY sums AS SELECT a.place, COUNT(*) AS n, SUM(b.value) AS s {alike} GROUP BY a.place")
    small.wait_for_own_writes()
    small.execute(
        f"CREATE QUERY read AS SELECT place, COUNT(*) AS n, SUM(value) AS s FROM pairs GROUP BY place {window}"
    )
    values = {place: [n % 7 for n in range(ROWS) if n % 2 == at] for at, place in ((0, "north"), (1, "south"))}
    kept = {place: [v for v in found if v > 3] for place, found in values.items()}
    expected = [(place, len(v), float(sum(v))) for place, v in kept.items()]
    for name in ("sums", "read"):
        small.wait_for_own_writes()
        assert small.standing.is_ready(name, 60.0)
        assert answer(small, name) == expected, name
    asked = f"SELECT COUNT(*) AS n, SUM(value) AS s FROM pairs {window}"
    everything = [(sum(n for _, n, _ in expected), sum(s for *_, s in expected))]
    assert rows_of(small.execute(asked).table) == everything
    spelled = "SELECT place, COUNT(*) AS n, SUM(value) AS s FROM pairs WHERE value > 0 GROUP BY place"
    assert sorted(rows_of(small.execute(spelled).table)) == expected
    assert len(answer(small, "pairs")) == everything[0][0]
    assert (reads.registry.get_sample_value("penstock_answer_jobs_total") or 0.0) >= jobs + 4
    assert reads.most <= MOST
