"""Approximate and correlated aggregates on Spark: asked once they are exact, standing they come through real workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.queries.database import Database
from tests.pipeline.asking import answer, ask, at
from tests.pipeline.conftest import clear

ASKED = (
    "APPROX_COUNT(*) AS n, APPROX_SUM(ppm) AS s, APPROX_DISTINCT(kind) AS d, APPROX_PERCENTILE(ppm, 0.0) AS p,"
    " APPROX_TOP_K(kind, 1) AS t, APPROX_NORM(kind) AS q"
)
NEAR = "SELECT COUNT(*) AS n FROM meters WHERE ppm >= 0.9 * (SELECT MAX(ppm) FROM meters)"
WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"


@pytest.fixture(scope="module")
def meters(database: Database) -> Iterator[Database]:
    clear(database)
    database.execute(
        "CREATE TABLE meters (id INT PRIMARY KEY, r STREAM (ppm DOUBLE, kind TEXT)) WITH (time = 'valid');"
        "INSERT INTO meters VALUES (1, NULL)"
    )
    database.execute(f"CREATE QUERY standing AS SELECT {ASKED} FROM meters {WINDOW}")
    database.execute(f"CREATE QUERY near AS {NEAR} {WINDOW}")
    kinds = ["a", "a", "a", "b", None]
    rows = [{"id": 1, "ppm": float(i), "kind": k, "ts": at(i)} for i, k in enumerate(kinds)]
    database.push("meters", rows)
    yield database
    clear(database)


def test_asked_once_they_are_exact(meters: Database) -> None:
    (found,) = ask(meters, f"SELECT {ASKED} FROM meters")
    assert found[:5] == (5, 10.0, 2, 0.0, [{"item": "a", "count": 3}])
    assert found[5] == pytest.approx(10**0.5)


def test_asked_once_the_error_is_none(meters: Database) -> None:
    assert ask(meters, "SELECT APPROX_COUNT(ppm) AS n FROM meters WITH ERROR") == [(5, 0.0)]
    assert ask(meters, "SELECT APPROX_NORM(kind) AS q FROM meters WHERE ppm > 100") == [(None,)]


def test_standing_they_come_from_workers(meters: Database) -> None:
    ((n, s, d, p, t, q),) = answer(meters, "standing")
    assert (n, s, d, p, t) == (5, 10.0, 2, 0.0, [{"item": "a", "count": 3}])
    assert q == pytest.approx(10**0.5, rel=0.25)


def test_a_correlated_aggregate_is_the_same_both_ways(meters: Database) -> None:
    assert answer(meters, "near") == ask(meters, NEAR) == [(1,)]
