"""NOW of a query over several streams: the smallest, but not that of a stream from which nothing comes any more."""

from __future__ import annotations

from penstock.operators.sparksql.moments import now_of_plan
from penstock.sql.parse import parse_select
from penstock.sql.planning.planner import plan_query
from tests.support.pipe import BEGAN_US, Pipe

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
