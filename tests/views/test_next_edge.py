"""Time passes without data: a cycle is due while an answer can still change by it, and no longer."""

from __future__ import annotations

import pytest

from penstock.clock import SECOND
from penstock.sql.parse import parse_select
from penstock.sql.plan import plan_to_json
from penstock.sql.planning.planner import plan_query, reads_of
from tests.support.new_query import new_query
from tests.support.pipe import BEGAN_US, Pipe


def quiet_cycles(pipe: Pipe, seconds: int) -> int:
    """How many cycles run while nothing comes in."""
    ran = 0
    for _ in range(seconds):
        pipe.clock.advance(SECOND)
        ran += pipe.engine.cycle() is not None
    return ran


def create_spark_query(pipe: Pipe, name: str, sql: str) -> None:
    """Register a query that Spark would run, without trying it on Spark first."""
    state = pipe.db.catalog.state
    plan = plan_query(parse_select(sql), state, standing=True)
    start = pipe.clock.now_us()
    pipe.db.catalog.create_queries([new_query(name, sql, plan_to_json(plan), *reads_of(plan, state), start)])


def test_a_sliding_window_asks_for_cycles_until_its_last_row_has_left(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 5 SECONDS) END (NOW)")
    pipe.push(1.0)
    pipe.engine.drain()
    assert 5 <= quiet_cycles(pipe, 20) <= 7
    assert pipe.answer("seen") == []


def test_a_window_that_lags_asks_for_cycles_until_its_last_row_is_in(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (START) END (NOW - 5 SECONDS)")
    pipe.push(1.0)
    pipe.engine.drain()
    assert pipe.answer("seen") == []
    assert 5 <= quiet_cycles(pipe, 20) <= 7
    assert pipe.answer("seen") == [1.0]


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 5 SECONDS) END (NOW)"])
def test_a_query_outside_the_shared_pass_sees_its_rows_leave_too(pipe: Pipe, sql: str) -> None:
    pipe.probes()
    create_spark_query(pipe, "counted", sql)
    pipe.push(1.0)
    pipe.engine.drain()
    assert 5 <= quiet_cycles(pipe, 20) <= 7


def test_a_query_finishes_when_its_end_comes_and_not_long_after(pipe: Pipe) -> None:
    pipe.probes()
    end = "2025-11-15 07:00:10"  # ten seconds after the clock began
    assert BEGAN_US == 1_763_190_000 * SECOND
    pipe.db.execute(f"CREATE QUERY until AS SELECT value FROM probes BEGIN (START) END ('{end}')")
    pipe.engine.drain()
    quiet_cycles(pipe, 12)
    assert pipe.db.queries()[0]["state"] == "FINISHED"


def test_windows_that_time_does_not_move_ask_for_nothing(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY newest AS SELECT value FROM probes BEGIN (LAST 1 ROWS)")
    pipe.db.execute("CREATE QUERY since AS SELECT value FROM probes")
    pipe.push(1.0)
    pipe.engine.drain()
    assert quiet_cycles(pipe, 20) <= 1
