"""Ten thousand sensors stand in a table; a query on two of them opens two."""

from __future__ import annotations

from penstock.database.database import Database
from tests.spark.asking import ask, eventually, rows_of


def test_only_the_sensors_that_survive_the_initial_scan_are_opened(db: Database) -> None:
    db.execute("CREATE STREAM TYPE probe AS (ppm DOUBLE) USING simulator OPTIONS (rate '20')")
    db.execute("CREATE TABLE plant (id INT PRIMARY KEY, hall TEXT, reading STREAM probe)")
    db.catalog.insert_rows("plant", [(i, f"hall {i % 100}", f"sensor-{i}") for i in range(10_000)])
    assert ask(db, "SELECT COUNT(*) FROM plant") == [(10_000,)]
    assert opened(db) == []
    db.execute("CREATE QUERY two AS SELECT id, ppm FROM plant WHERE id IN (17, 4711) BEGIN (LAST 1 ROWS PER SENSOR)")
    eventually(lambda: {row[0] for row in rows_of(db.invoke("two").table)} == {17, 4711})
    assert opened(db) == [17, 4711]
    db.execute("CREATE QUERY also AS SELECT ppm FROM plant WHERE id = 17 BEGIN (NOW - 1 MINUTE) END (NOW)")
    db.execute("DROP QUERY two")
    eventually(lambda: opened(db) == [17])
    db.execute("DROP QUERY also")
    eventually(lambda: opened(db) == [])
    seen = {row[0] for row in ask(db, "SELECT id FROM plant WHERE ppm IS NOT NULL OR ppm IS NULL")}
    assert seen == {17, 4711}


def opened(db: Database) -> list[int]:
    return [s["key"]["id"] for s in db.sensors("plant") if s["state"] not in ("closed", "ended")]
