"""Rollups under Spark: cycles run by themselves, and what Spark answers stands beside it."""

from __future__ import annotations

from penstock.database.database import Database
from tests.spark.asking import answer, eventually, push


def test_what_retention_takes_is_answered_from_the_rollup_and_what_spark_answers_says_that_it_is_short(
    db: Database,
) -> None:
    db.execute(
        "CREATE TABLE meters (id INT PRIMARY KEY, site TEXT, reading STREAM (n INT)) "
        "WITH (time = 'valid', retention = '10 SECONDS'); INSERT INTO meters VALUES (1, 'north', NULL)"
    )
    db.execute("CREATE ROLLUP coarse ON meters AS SELECT site, SUM(n) GROUP BY site EVERY 5 SECONDS")
    hour = "SELECT site, COUNT(*) AS readings, SUM(n) AS total FROM meters GROUP BY site BEGIN (NOW - 1 HOUR) END (NOW)"
    db.execute(f"CREATE QUERY w AS {hour}")
    for n in range(6):
        push(db, (1, n * 5, n))
        answer(db, "w")  # a file for each
    table = db.catalog.state.tables["meters"]
    db.housekeeper.tend(table.id)
    eventually(lambda: bool(db.invoke("w").notices))
    assert answer(db, "w") == [("north", 6, 15)]
    found = db.execute(f"{hour} ORDER BY 1")
    assert [tuple(row.values()) for row in found.table.to_pylist()] == [("north", 6, 15)]
    assert "every 5s" in found.notices[0]
    short = db.execute("SELECT MEDIAN(n) AS m FROM meters BEGIN (NOW - 1 HOUR) END (NOW)")
    assert short.complete_from_us is not None and short.table.to_pylist()[0]["m"] > 2.5
