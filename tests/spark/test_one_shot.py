"""One-shot SELECTs: all of SQL over the log, the static rows and ordinary tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.database.database import Database
from penstock.errors import PenstockError
from tests.spark.asking import Rows, ask
from tests.spark.conftest import clear


@pytest.fixture(scope="module")
def plant(database: Database) -> Iterator[Database]:
    """Three probes with two readings each, and who looks after each site."""
    clear(database)
    database.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, site TEXT, reading STREAM (ppm DOUBLE, n INT)) WITH (time = 'valid');"
        "INSERT INTO probes VALUES (1, 'north', NULL), (2, 'north', NULL), (3, 'south', NULL);"
        "CREATE TABLE keepers (site TEXT PRIMARY KEY, keeper TEXT, ppm_max DOUBLE);"
        "INSERT INTO keepers VALUES ('north', 'Ada', 20), ('south', 'Bob', 45), ('east', 'Cyd', 1)"
    )
    database.push(
        "probes",
        [
            {"id": i, "ppm": ppm, "n": n, "ts": f"2026-01-05T10:00:{n:02d}Z"}
            for n, (i, ppm) in enumerate([(1, 10.0), (2, 20.0), (3, 30.0), (1, 40.0), (2, 50.0), (3, None)])
        ],
    )
    yield database
    clear(database)


QUESTIONS: list[tuple[str, str, Rows]] = [
    (
        "a join with an ordinary table",
        "SELECT p.n, k.keeper FROM probes p JOIN keepers k ON p.site = k.site WHERE p.ppm > k.ppm_max ORDER BY p.n",
        [(3, "Ada"), (4, "Ada")],
    ),
    (
        "an outer join",
        "SELECT p.n, k.keeper FROM probes p LEFT JOIN keepers k ON p.site = k.site AND k.ppm_max > 30 "
        "WHERE p.n < 3 ORDER BY p.n",
        [(0, None), (1, None), (2, "Bob")],
    ),
    (
        "aggregates, groups and HAVING",
        "SELECT site, COUNT(*) AS c, AVG(ppm) AS a, MIN(ppm) AS lo, MAX(n) AS hi FROM probes "
        "GROUP BY site HAVING COUNT(ppm) > 0 ORDER BY site",
        [("north", 4, 30.0, 10.0, 4), ("south", 2, 30.0, 30.0, 5)],
    ),
    (
        "a scalar subquery",
        "SELECT n FROM probes WHERE ppm > (SELECT AVG(ppm) FROM probes) ORDER BY n",
        [(3,), (4,)],
    ),
    (
        "IN with a subquery",
        "SELECT n FROM probes WHERE site IN (SELECT site FROM keepers WHERE keeper = 'Bob') ORDER BY n",
        [(2,), (5,)],
    ),
    (
        "a correlated EXISTS",
        "SELECT k.keeper FROM keepers k WHERE EXISTS (SELECT 1 FROM probes p WHERE p.site = k.site AND p.ppm > 35)",
        [("Ada",)],
    ),
    (
        "a common table expression",
        "WITH high AS (SELECT id, ppm FROM probes WHERE ppm >= 30) SELECT id, SUM(ppm) AS s FROM high "
        "GROUP BY id ORDER BY id",
        [(1, 40.0), (2, 50.0), (3, 30.0)],
    ),
    (
        "a common table expression used twice, each with its own condition",
        "WITH x AS (SELECT id, n, ppm FROM probes) SELECT a.n, b.n AS m FROM x a JOIN x b ON a.id = b.id "
        "WHERE a.ppm < 15 AND b.ppm > 35",
        [(0, 3)],
    ),
    (
        "the same table twice, each with its own static condition",
        "SELECT a.n, b.n AS m FROM probes a, probes b WHERE a.id = 1 AND b.id = 3 AND a.n < b.n ORDER BY a.n, b.n",
        [(0, 2), (0, 5), (3, 5)],
    ),
    (
        "window functions",
        "SELECT n, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) AS r, LAG(ppm) OVER (PARTITION BY id ORDER BY ts) "
        "AS before FROM probes WHERE site = 'north' ORDER BY n",
        [(0, 1, None), (1, 1, None), (3, 2, 10.0), (4, 2, 20.0)],
    ),
    (
        "UNION ALL, ORDER BY and LIMIT",
        "SELECT n FROM probes WHERE id = 1 UNION ALL SELECT n + 100 FROM probes WHERE id = 2 ORDER BY n DESC LIMIT 3",
        [(104,), (101,), (3,)],
    ),
    (
        "three-valued logic",
        "SELECT n FROM probes WHERE NOT (ppm > 15) OR ppm IS NULL ORDER BY n",
        [(0,), (5,)],
    ),
    (
        "a window over time",
        "SELECT n FROM probes BEGIN (NOW - 2 SECONDS) END (NOW) ORDER BY n",
        [(3,), (4,), (5,)],
    ),
    (
        "a window of the newest rows, before predicates",
        "SELECT n FROM probes WHERE ppm > 15 BEGIN (LAST 1 ROWS PER SENSOR) ORDER BY n",
        [(3,), (4,)],
    ),
    (
        "a window join, with the times of its combinations",
        "SELECT a.n, b.n AS m, EXTRACT(SECOND FROM ts) AS latest, EXTRACT(SECOND FROM ts_min) AS earliest "
        "FROM probes a, probes b WINDOW(a, b) BETWEEN -2 SECONDS AND 1 SECOND WHERE a.id = 2 AND b.ppm > 15 "
        "ORDER BY a.n, b.n",
        [(1, 1, 1.0, 1.0), (1, 2, 2.0, 1.0), (4, 2, 4.0, 2.0), (4, 3, 4.0, 3.0), (4, 4, 4.0, 4.0)],
    ),
    (
        "a LEFT JOIN within a window, for rows whose window has passed",
        "SELECT a.n, b.n AS m FROM probes a LEFT JOIN probes b ON b.id = a.id AND b.n > a.n DWINDOW(a, b) = 3 SECONDS "
        "ORDER BY a.n",
        [(0, 3), (1, 4), (2, 5)],
    ),
    (
        "a LEFT JOIN within a window that finds nothing",
        "SELECT a.n, b.n AS m FROM probes a LEFT JOIN probes b ON b.id = a.id AND b.n > a.n DWINDOW(a, b) = 1 SECOND "
        "ORDER BY a.n",
        [(0, None), (1, None), (2, None), (3, None)],
    ),
    (
        "NOT EXISTS within a window, once it has passed",
        "SELECT p.n FROM probes p WHERE NOT EXISTS (SELECT 1 FROM probes q WHERE q.site = p.site AND q.ts > p.ts "
        "AND p.n < 100 DWINDOW(p, q) = 1500 MS) ORDER BY p.n",
        [(1,), (2,)],
    ),
    (
        "EXISTS within a window",
        "SELECT p.n FROM probes p WHERE EXISTS (SELECT 1 FROM probes q WHERE q.site = p.site AND q.ts > p.ts "
        "DWINDOW(p, q) = 1500 MS) ORDER BY p.n",
        [(0,), (3,)],
    ),
    ("static columns alone", "SELECT id FROM probes WHERE site = 'south'", [(3,)]),
]


@pytest.mark.parametrize(("sql", "wanted"), [q[1:] for q in QUESTIONS], ids=[q[0] for q in QUESTIONS])
def test_a_select_answers(plant: Database, sql: str, wanted: Rows) -> None:
    assert ask(plant, sql) == wanted


def test_parameters_by_place(plant: Database) -> None:
    assert ask(plant, "SELECT n FROM probes WHERE ppm > $1 AND site = $2 ORDER BY n", [15, "north"]) == [
        (1,),
        (3,),
        (4,),
    ]


def test_readings_join_an_ordinary_table_as_it_was_and_a_select_sees_its_own_writes(plant: Database) -> None:
    sql = "SELECT k.keeper FROM probes p JOIN keepers k ON p.site = k.site WHERE p.n = 2"
    assert ask(plant, sql) == [("Bob",)]
    plant.push("probes", [{"id": 3, "ppm": 1.0, "n": 6, "ts": "2026-01-05T10:00:06Z"}])
    assert ask(plant, "SELECT MAX(n) FROM probes") == [(6,)]


def test_what_spark_refuses_is_refused_in_our_words(plant: Database) -> None:
    with pytest.raises(PenstockError) as caught:
        ask(plant, "SELECT nonsense FROM probes")
    assert caught.value.condition == "column_not_found"


def test_a_function_that_fails_says_its_own_name(plant: Database) -> None:
    plant.execute("CREATE FUNCTION broken(x DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$ return x / 0 $$")
    with pytest.raises(PenstockError) as caught:
        ask(plant, "SELECT broken(ppm) FROM probes")
    assert caught.value.condition == "function_failed"
    assert '"broken"' in caught.value.message and "ZeroDivisionError" in caught.value.message
