"""NOW of a query over several streams: the smallest, but not that of a stream from which nothing comes any more."""

from __future__ import annotations

import pytest

from penstock.queries import standing
from penstock.queries.moments import now_of_plan
from penstock.sql.parse import parse_select
from penstock.sql.planner import plan_query
from tests.pipeline_pure.world import BEGAN_US, Pipe

TWO = "SELECT a.value, b.value FROM fast a, slow b WHERE a.id = b.id BEGIN (NOW - 1 HOUR) END (NOW)"


def now(pipe: Pipe) -> int | None:
    pipe.engine.drain()
    plan = plan_query(parse_select(TWO), pipe.db.catalog.state, standing=True)
    with pipe.db.standing.locked() as store:
        return now_of_plan(plan, store)


def test_a_stream_whose_sensors_have_all_ended_does_not_hold_now_back(pipe: Pipe) -> None:
    for table in ("fast", "slow"):
        options = "WITH (time = 'valid')"
        pipe.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, reading STREAM (value DOUBLE)) {options}")
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, NULL), (2, NULL)")
    for sensor in (1, 2):
        pipe.db.push("fast", [{"id": sensor, "value": 1.0, "ts": BEGAN_US + 500}])
        pipe.db.push("slow", [{"id": sensor, "value": 1.0, "ts": BEGAN_US + 10 * sensor}])
    assert now(pipe) == BEGAN_US + 20
    slow = pipe.db.catalog.state.tables["slow"].id
    pipe.db.catalog.observe(slow, [], [1], [1])
    assert now(pipe) == BEGAN_US + 20, "one of its sensors may still say something"
    pipe.db.catalog.observe(slow, [], [0], [0])
    assert now(pipe) == BEGAN_US + 500
    pipe.restart()
    assert now(pipe) == BEGAN_US + 500
    pipe.db.execute("UPDATE slow SET reading = 'elsewhere' WHERE id = 2")
    assert now(pipe) == BEGAN_US + 20


LONELY = (
    "CREATE QUERY lonely AS SELECT a.ts, b.value FROM fast a LEFT JOIN slow b ON a.id = b.id WINDOW(a, b) = 1 SECOND "
    "BEGIN (NOW - 20 SECONDS) END (NOW)"
)


@pytest.mark.parametrize("every", [1000, 1], ids=["records", "snapshots"])
def test_now_of_a_join_stays_where_it_was_when_an_idle_stream_speaks_again(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """fast:  0 ............ 30 | slow:  0 .. silent for a minute .. 5"""
    monkeypatch.setattr(standing, "SNAPSHOT_EVERY", every)
    second = 1_000_000
    for table in ("fast", "slow"):
        options = "WITH (time = 'valid', out_of_order = 'accept', idle = '1 MINUTE')"
        pipe.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, reading STREAM (value DOUBLE)) {options}")
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
    pipe.db.execute(LONELY)

    def say(table: str, at: int) -> None:
        pipe.db.push(table, [{"id": 1, "value": float(at), "ts": BEGAN_US + at * second}])
        pipe.engine.drain()

    def told() -> tuple[int | None, list[int]]:
        held = pipe.db.standing.held("lonely")
        rows = pipe.db.standing.invoke("lonely").table.to_pylist()
        return held.now_us, sorted(int(row["ts"].timestamp() * second - BEGAN_US) // second for row in rows)

    say("fast", 0)
    say("slow", 0)
    say("fast", 11)
    assert told()[0] == BEGAN_US
    pipe.clock.advance(61 * second)
    say("fast", 30)
    assert told() == (BEGAN_US + 30 * second, [11])
    say("slow", 5)
    assert told() == (BEGAN_US + 30 * second, [11]), "what NOW has passed stays passed"
    pipe.restart()
    assert told() == (BEGAN_US + 30 * second, [11])
    say("slow", 31)
    say("fast", 32)
    assert told()[0] == BEGAN_US + 31 * second
