"""A state without end on Spark: told by workers, its history too, and read by other questions."""

from __future__ import annotations

from penstock.database.database import Database
from tests.spark.asking import answer, ask, make_meters, push, wait_for_the_fill


def test_history_and_new_readings_count_and_others_read_the_state(db: Database) -> None:
    make_meters(db, accept=True)
    push(db, (1, 1, 40), (2, 2, 7), (1, 3, 12))
    question = "SELECT site, MAX(n) AS high, COUNT(*) AS count FROM meters GROUP BY site, LATCH"
    db.execute(f"CREATE QUERY best AS {question} BEGIN ('2026-01-05 10:00:02')")
    wait_for_the_fill(db, "best")
    assert answer(db, "best") == [("north", 12, 1), ("south", 7, 1)]
    push(db, (2, 9, 30), (1, 2.5, 13), (1, 1.5, 99))
    assert answer(db, "best") == [("north", 13, 2), ("south", 30, 2)]
    assert ask(db, "SELECT site FROM best WHERE high > 20") == [("south",)]
    assert sorted(ask(db, question)) == [("north", 99, 4), ("south", 30, 2)]
