"""The query on a query of docs/howto/mining.md answers what the page shows."""

from __future__ import annotations

from penstock.database.database import Database
from tests.spark.asking import eventually
from tests.support.mining_page import BY_SPARK, PAGE, blocks_of, lines_of
from tests.support.real_series import push_howto


def test_a_query_on_a_forecast_says_when_it_passes_a_limit(db: Database) -> None:
    blocks = blocks_of(PAGE.read_text())
    for language, block in blocks:
        if language == "sql" and any(f"CREATE {made} " in block for made in ("TABLE", "QUERY next_hours")):
            db.execute(block)
    push_howto(db)
    db.wait_for_own_writes()
    for name in BY_SPARK:
        place = next(i for i, (_, block) in enumerate(blocks) if f"CREATE QUERY {name} " in block)
        shown = blocks[place + 1][1]
        db.execute(blocks[place][1])
        eventually(lambda name=name, shown=shown: lines_of(db.invoke(name).table) == shown)  # type: ignore[misc]
