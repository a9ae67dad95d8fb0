"""Functions as PostgreSQL means them, evaluated by Spark."""

from __future__ import annotations

from penstock.queries.database import Database


def test_groups_logarithms_and_quotients_are_those_of_postgresql(db: Database) -> None:
    answer = db.execute(
        "SELECT REGEXP_EXTRACT('ab12', '([a-z]+)([0-9]+)', 2) AS g, LOG(100) AS l, LOG(2, 8) AS l2, DIV(7, 2) AS q, "
        "DIV(-7, 2) AS n, DIV(7.5, 2) AS d"
    ).table.to_pylist()
    assert answer == [{"g": "12", "l": 2.0, "l2": 3.0, "q": 3, "n": -3, "d": 3.0}]
