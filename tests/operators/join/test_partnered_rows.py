"""A row that no partner came for is an answer once its window has passed, also if nothing else ever comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.database.database import Database
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock
from tests.support.pipe import BEGAN_US, Pipe

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


def test_a_condition_of_on_about_the_left_side_alone_decides_who_has_a_partner(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "data")
    pipe.probes("WITH (time = 'valid')")
    pipe.db.execute(
        "CREATE QUERY pairs AS SELECT a.value AS one, b.value AS other FROM probes a LEFT JOIN probes b"
        " ON a.id < b.id AND a.value > 2 WINDOW(a, b) = 1 SECOND"
    )
    pipe.engine.drain()
    for sensor, value, second in ((2, 9.0, 0), (1, 1.0, 0), (1, 3.0, 1), (1, 7.0, 5), (2, 9.0, 5)):
        pipe.db.push("probes", [{"id": sensor, "value": value, "ts": BEGAN_US + second * SECOND - 10 * SECOND}])
        pipe.engine.drain()
    rows = [tuple(row.values()) for row in pipe.db.invoke("pairs").table.to_pylist()]
    # The readings of sensor 2 have no partner either, and those of second 5 can still get one.
    assert sorted(rows, key=repr) == [(1.0, None), (3.0, 9.0), (7.0, 9.0), (9.0, None)]
