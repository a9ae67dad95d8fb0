"""Windows of standing queries, each on one example that is worked out by hand.

seconds after ten    0    1    2    3    4    5    6
meter 1 (north)      n=0       n=2       n=4       n=6
meter 2 (south)           n=1       n=3       n=5
"""

from __future__ import annotations

import pytest

from penstock.database.database import Database
from tests.spark.asking import Rows, answer, at, make_meters, push, wait_for_the_fill

READINGS = [(1 + n % 2, float(n), n) for n in range(7)]

# (clause, rows when everything was there before the query, rows when the query was there before them)
FORMS: list[tuple[str, list[int], list[int]]] = [
    ("BEGIN (NOW - 2 SECONDS) END (NOW)", [4, 5, 6], [4, 5, 6]),
    ("BEGIN (NOW - 4 SECONDS) END (NOW - 3 SECONDS)", [2, 3], [2, 3]),
    ("WHERE site = 'south' BEGIN (NOW - 2 SECONDS) END (NOW)", [3, 5], [3, 5]),
    (f"BEGIN ('{at(3)}') END (NOW)", [3, 4, 5, 6], [3, 4, 5, 6]),
    (f"BEGIN ('{at(1)}') END ('{at(3)}')", [1, 2, 3], [1, 2, 3]),
    ("BEGIN (START - 1 SECONDS) END (NOW)", [5, 6], list(range(7))),
    ("", [6], list(range(7))),
    ("BEGIN (LAST 3 ROWS)", [4, 5, 6], [4, 5, 6]),
    ("WHERE n <> 5 BEGIN (LAST 3 ROWS)", [4, 6], [4, 6]),
    ("WHERE site = 'south' BEGIN (LAST 2 ROWS)", [3, 5], [3, 5]),
    ("BEGIN (LAST 1 ROWS PER SENSOR)", [5, 6], [5, 6]),
    ("WHERE n < 6 BEGIN (LAST 1 ROWS PER SENSOR)", [5], [5]),
]


def numbers(rows: Rows) -> list[int]:
    return [row[0] for row in rows]


def register(db: Database) -> None:
    db.register([(f"q{i}", f"SELECT n FROM meters {clause}") for i, (clause, _, _) in enumerate(FORMS)])


def test_windows_fill_from_the_past(db: Database) -> None:
    make_meters(db)
    push(db, *READINGS)
    db.wait_for_own_writes()
    register(db)
    for i, (clause, filled, _) in enumerate(FORMS):
        assert numbers(answer(db, f"q{i}")) == filled, clause


def test_windows_follow_readings_as_they_come(db: Database) -> None:
    make_meters(db)
    register(db)
    for reading in READINGS:
        push(db, reading)
    for i, (clause, _, live) in enumerate(FORMS):
        assert numbers(answer(db, f"q{i}")) == live, clause


def test_a_late_reading_corrects_every_answer_it_belongs_to(db: Database) -> None:
    make_meters(db, accept=True)
    db.execute("CREATE QUERY w AS SELECT n FROM meters BEGIN (NOW - 3 SECONDS) END (NOW - 1 SECONDS)")
    db.execute("CREATE QUERY last AS SELECT n FROM meters BEGIN (LAST 2 ROWS)")
    push(db, (1, 0, 0), (1, 5, 5))
    assert (numbers(answer(db, "w")), numbers(answer(db, "last"))) == ([], [0, 5])
    push(db, (1, 4.5, 45), (2, 3, 3))
    assert (numbers(answer(db, "w")), numbers(answer(db, "last"))) == ([3], [5, 45])
    push(db, (1, 4, 4), (1, 1.9, 19))
    assert (numbers(answer(db, "w")), numbers(answer(db, "last"))) == ([3, 4], [5, 45])


def test_time_passes_without_data_in_transaction_time(db: Database) -> None:
    db.execute("CREATE TABLE taps (id INT PRIMARY KEY, reading STREAM (n INT)); INSERT INTO taps VALUES (1, NULL)")
    db.execute("CREATE QUERY just_now AS SELECT n FROM taps BEGIN (NOW - 1 SECONDS) END (NOW)")
    subscription = db.subscribe("just_now", changes=True)
    assert subscription.next(60) is not None
    came = None
    while came is None:  # a cycle that takes longer than the window does not see it
        db.push("taps", [{"id": 1, "n": 7}])
        came = subscription.next(10)
    went = subscription.next(60)
    subscription.close()
    assert came.table.to_pylist() == [{"op": "+", "n": 7}]
    assert went is not None and went.table.to_pylist() == [{"op": "-", "n": 7}]


@pytest.mark.parametrize("clause", ["BEGIN (NOW - 1 HOUR) END (NOW)", f"BEGIN ('{at(0)}') END (NOW)"])
def test_a_changed_window_is_filled_from_history(db: Database, clause: str) -> None:
    make_meters(db)
    push(db, *READINGS)
    db.execute("CREATE QUERY w AS SELECT n FROM meters WHERE n > 0 BEGIN (NOW - 1 SECONDS) END (NOW)")
    assert numbers(answer(db, "w")) == [5, 6]
    db.execute(f"ALTER QUERY w SET {clause}")
    wait_for_the_fill(db, "w")
    assert numbers(answer(db, "w")) == [1, 2, 3, 4, 5, 6]
    db.execute("ALTER QUERY w SET BEGIN (LAST 2 ROWS)")
    push(db, (2, 7, 7))
    wait_for_the_fill(db, "w")
    assert numbers(answer(db, "w")) == [6, 7]


def test_a_window_that_ends_finishes_its_query(db: Database) -> None:
    make_meters(db)
    db.execute(f"CREATE QUERY w AS SELECT n FROM meters BEGIN (START - 1 MINUTE) END ('{at(2)}')")
    push(db, *READINGS)
    assert numbers(answer(db, "w")) == [0, 1, 2]
    assert db.query("w")["state"] == "FINISHED"
