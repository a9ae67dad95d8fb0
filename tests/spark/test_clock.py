"""A wall clock that jumps, on Spark: its planner process has the server's NOW."""

from __future__ import annotations

import time

import pytest

from penstock.database.database import Database
from tests.spark.asking import answer, eventually
from tests.support.clock_world import YEAR_2099_US


def test_cycles_go_on_at_the_servers_now_while_the_wall_clock_is_in_2099(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (v DOUBLE)); INSERT INTO probes VALUES (1, NULL)"
    )
    db.execute("CREATE QUERY recent AS SELECT v FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    db.push("probes", [{"id": 1, "v": 1.0}])
    eventually(lambda: len(answer(db, "recent")) == 1)
    with monkeypatch.context() as jumped:
        jumped.setattr(time, "time_ns", lambda: YEAR_2099_US * 1000)
        db.push("probes", [{"id": 1, "v": 2.0}])
        eventually(lambda: len(answer(db, "recent")) == 2)
        assert "clock held" in db.health().details["clock"]
        assert db.standing.store.offset is not None and db.standing.store.offset.now_us < YEAR_2099_US
    assert "clock" not in db.health().details
