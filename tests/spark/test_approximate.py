"""Approximate and correlated aggregates and samples on Spark: asked once they are exact, standing they come through workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.database.database import Database
from tests.expr.reference import xxhash64
from tests.spark.asking import answer, ask, at
from tests.spark.conftest import clear

ASKED = (
    "APPROX_COUNT(*) AS n, APPROX_SUM(ppm) AS s, APPROX_DISTINCT(kind) AS d, APPROX_PERCENTILE(ppm, 0.0) AS p,"
    " APPROX_TOP_K(kind, 1) AS t, APPROX_NORM(kind) AS q"
)
NEAR = "SELECT COUNT(*) AS n FROM meters WHERE ppm >= 0.9 * (SELECT MAX(ppm) FROM meters)"
PER_KIND = (
    "SELECT kind, COUNT(*) AS n, MAX(ppm) AS high FROM meters o"
    " WHERE ppm >= (SELECT AVG(i.ppm) FROM meters i WHERE i.kind = o.kind) GROUP BY kind"
)
WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
SAMPLED = "SELECT ppm FROM many TABLESAMPLE BERNOULLI (20) REPEATABLE (3)"
ABOVE = "SELECT COUNT(*) AS n, SUM(ppm) AS s FROM many WHERE ppm > (SELECT AVG(ppm) FROM many)"
MANY = 3000


@pytest.fixture(scope="module")
def meters(database: Database) -> Iterator[Database]:
    clear(database)
    database.execute(
        "CREATE TABLE meters (id INT PRIMARY KEY, r STREAM (ppm DOUBLE, kind TEXT)) WITH (time = 'valid');"
        "INSERT INTO meters VALUES (1, NULL)"
    )
    database.execute(f"CREATE QUERY standing AS SELECT {ASKED} FROM meters {WINDOW}")
    database.execute(f"CREATE QUERY near AS {NEAR} {WINDOW}")
    database.execute(f"CREATE QUERY per_kind AS {PER_KIND} {WINDOW}")
    kinds = ["a", "a", "a", "b", None]
    rows = [{"id": 1, "ppm": float(i), "kind": k, "ts": at(i)} for i, k in enumerate(kinds)]
    database.push("meters", rows)
    database.execute(
        "CREATE TABLE many (id INT PRIMARY KEY, r STREAM (ppm DOUBLE)) WITH (time = 'valid');"
        "INSERT INTO many VALUES (1, NULL)"
    )
    database.execute(f"CREATE QUERY sampled AS {SAMPLED} {WINDOW}")
    database.execute(f"CREATE QUERY above AS {ABOVE} {WINDOW} WITHIN 2 PERCENT WITH BOUNDS")
    database.push("many", [{"id": 1, "ppm": float(i * i % 1009), "ts": at(i / 10)} for i in range(MANY)])
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
    assert answer(meters, "per_kind") == sorted(ask(meters, PER_KIND)) == [("a", 2, 2.0), ("b", 1, 3.0)]


def test_within_a_percentage_real_workers_keep_the_promise_and_the_bounds(meters: Database) -> None:
    ((n, s),) = ask(meters, ABOVE)
    ((rough, lower, upper, total, least, most),) = [
        tuple(row[name] for name in ("n", "n_lower", "n_upper", "s", "s_lower", "s_upper"))
        for row in meters.invoke("above").table.to_pylist()
    ]
    assert lower <= n <= upper and abs(rough - n) <= 0.02 * n
    assert least <= s + 1e-6 and s - 1e-6 <= most and abs(total - s) <= 0.02 * s
    assert ask(meters, f"{ABOVE} WITHIN 2 PERCENT WITH BOUNDS") == [(n, s, n, n, s, s)]


def test_a_sample_has_the_same_rows_in_workers_in_spark_sql_and_by_hand(meters: Database) -> None:
    kept = [(float(i * i % 1009),) for i in range(MANY) if xxhash64(i, 3) % 1_000_000_000 < 200_000_000]
    assert answer(meters, "sampled") == sorted(ask(meters, SAMPLED)) == sorted(kept)
    assert ask(meters, "SELECT COUNT(*) FROM many TABLESAMPLE PERIODIC (7) REPEATABLE (2)") == [
        (len(range(2, MANY, 7)),)
    ]
