"""User aggregates and inner aggregates per window on Spark: workers add, and Spark's own SQL says the same of the same rows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from penstock.database.database import Database
from penstock.expr.code_workers import CODE_WORKERS
from tests.operators.aggregate.own.bodies import ENERGY, statement
from tests.spark.asking import answer, ask, at
from tests.spark.conftest import clear
from tests.support.idle_workers import idle_pids

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
WHERE = statement(
    "places",
    "x DOUBLE",
    "ARRAY<BIGINT>",
    "ARRAY<BIGINT>",
    """
import os
def init(): return []
def add(state, x): return sorted({*state, os.getpid()})
def merge(a, b): return sorted({*a, *b})
def finish(state): return [*state, -os.getpid()]
""",
)
KINDS = ["a", "a", "b", "c", "a", "b"]


@pytest.fixture(scope="module")
def meters(database: Database) -> Iterator[Database]:
    clear(database)
    database.execute(
        "CREATE TABLE meters (id INT PRIMARY KEY, r STREAM (ppm DOUBLE, kind TEXT)) WITH (time = 'valid');"
        "INSERT INTO meters VALUES (1, NULL)"
    )
    database.execute(ENERGY)
    database.execute(WHERE)
    database.execute(f"CREATE QUERY used AS SELECT kind, energy(ppm) AS e FROM meters GROUP BY kind {WINDOW}")
    database.execute(f"CREATE QUERY seen AS SELECT places(ppm) AS p FROM meters {WINDOW}")
    database.execute(
        "CREATE QUERY above AS SELECT window_start, COUNT(*) AS n FROM meters"
        f" WHERE ppm > (SELECT AVG(ppm) FROM meters PER WINDOW) GROUP BY TUMBLE(1 MINUTE) {WINDOW}"
    )
    rows = [
        {"id": 1, "ppm": None if i % 7 == 3 else float(i * i % 101), "kind": KINDS[i % 6], "ts": at(i)}
        for i in range(300)
    ]
    for first in range(0, len(rows), 60):
        database.push("meters", rows[first : first + 60])
    yield database
    clear(database)


def test_a_user_aggregate_says_what_sum_says_in_spark(meters: Database) -> None:
    batch = ask(meters, "SELECT kind, SUM(ppm) FROM meters GROUP BY kind")
    assert sorted(answer(meters, "used"), key=repr) == sorted(batch, key=repr)


def test_add_runs_in_workers_and_finish_in_a_code_worker(meters: Database) -> None:
    ((found,),) = answer(meters, "seen")
    workers, finisher = {pid for pid in found if pid > 0}, -found[-1]
    assert found[-1] < 0 and finisher in idle_pids(CODE_WORKERS)
    # What the window cuts is added where it is finished.
    assert workers - {finisher} and os.getpid() not in {*workers, finisher}


def test_inner_aggregates_per_window_are_those_of_a_window_function(meters: Database) -> None:
    batch = ask(
        meters,
        "SELECT minute, COUNT(*) AS n FROM (SELECT ppm, DATE_TRUNC('minute', ts) AS minute,"
        " AVG(ppm) OVER (PARTITION BY DATE_TRUNC('minute', ts)) AS mean FROM meters) m WHERE ppm > mean GROUP BY minute",
    )
    assert sorted(answer(meters, "above")) == sorted(batch) and len(batch) == 5


def test_an_approximate_mean_is_the_mean_in_spark(meters: Database) -> None:
    ((found, exact),) = ask(meters, "SELECT APPROX_AVG(ppm, 0.01), AVG(ppm) FROM meters")
    assert found == pytest.approx(exact)
