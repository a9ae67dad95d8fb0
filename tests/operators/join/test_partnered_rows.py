"""A row that no partner came for is an answer once its window has passed, also if nothing else ever comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.database.database import Database
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock

SECOND = 1_000_000


def test_silence_alone_raises_the_alarm(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000 * SECOND)
    engines: list[LocalEngine] = []

    def engine(*arguments: Any) -> LocalEngine:
        engines.append(LocalEngine(*arguments, clock=clock))
        return engines[-1]

    db = Database(Settings(data=str(tmp_path / "data"), group_commit_ms=0), clock, engine=engine)
    db.start()
    try:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, r STREAM (v DOUBLE))")
        db.execute("INSERT INTO t VALUES (1, NULL)")
        db.execute(
            "CREATE QUERY silent AS SELECT p.id, p.v FROM t p WHERE NOT EXISTS"
            " (SELECT 1 FROM t n WHERE n.id = p.id AND n.ts > p.ts DWINDOW(p,n) = 3 SECONDS)"
        )
        engines[0].drain()
        clock.advance(SECOND)
        db.push("t", [{"id": 1, "v": 5.0}])
        engines[0].drain()
        assert db.standing.invoke("silent").table.num_rows == 0
        for _ in range(5):  # time passes, nobody speaks
            clock.advance(SECOND)
            engines[0].cycle()
        assert db.standing.invoke("silent").table.to_pylist() == [{"id": 1, "v": 5.0}]
        clock.advance(SECOND)
        assert engines[0].cycle() is None, "with nothing left to wait for, nothing runs"
    finally:
        db.stop()
