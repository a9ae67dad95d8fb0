"""A heavy query of class low on real Spark: it may stand behind, and comes to the same rows."""

from __future__ import annotations

from penstock.database.database import Database
from tests.spark.asking import answer, ask, eventually, make_meters, push

SLOW = "CREATE FUNCTION slow(n INT) RETURNS BOOLEAN LANGUAGE python AS $$ sum(range(20000)) > 0 and n % 2 == 1 $$"
WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"


def test_a_slow_query_of_class_low_ends_with_the_rows_of_its_twin(db: Database) -> None:
    make_meters(db, accept=True)
    db.execute(SLOW)
    db.execute(f"CREATE QUERY heavy WITH (priority = 'low') AS SELECT n FROM meters WHERE slow(n) {WINDOW}")
    db.execute(f"CREATE QUERY plain WITH (priority = 'high') AS SELECT n FROM meters WHERE n % 2 = 1 {WINDOW}")
    for batch in range(8):
        push(db, *((1, batch + n / 1000, n) for n in range(300)))
        found = db.invoke("heavy")
        assert found.cycle is not None and found.cycle <= db.standing.store.cycle
    expected = [(n,) for n in sorted(list(range(1, 300, 2)) * 8)]
    assert answer(db, "plain") == expected
    eventually(lambda: db.query("heavy")["state"] == "RUNNING")
    assert answer(db, "heavy") == expected
    assert ask(db, "SELECT behind FROM penstock.queries WHERE name = 'heavy'") == [(0,)]
