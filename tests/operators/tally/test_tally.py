"""A new operator brings its own step and its own kind of result in one folder: cycles run it, records and snapshots hold it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.clock import format_timestamp
from penstock.operators import registry
from penstock.sql.parse import parse_select
from penstock.sql.plan import AggregatePlan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import plan_query
from tests.operators.tally.plan import TallyPlan
from tests.support.pipe import Pipe

QUESTION = "SELECT COUNT(*) AS readings FROM probes BEGIN (START - 1 HOUR) END (NOW)"


@pytest.fixture
def pipe(pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch) -> Pipe:
    """With the one line in the registry."""
    monkeypatch.setitem(registry.OPERATORS, "tally", "tests.operators.tally")
    found = pipes(cycles_keep=64)
    found.probes()
    return found


def count(pipe: Pipe, cycle: int | None = None) -> int:
    (found,) = pipe.db.invoke("tally", cycle).table.column("readings").to_pylist()
    return int(found)


def test_new_readings_and_history_count_once(pipe: Pipe) -> None:
    pipe.push(1.0, 2.0, 3.0)
    pipe.engine.drain()
    pipe.db.execute(f"CREATE QUERY tally AS {QUESTION}")
    pipe.engine.drain()
    assert count(pipe) == 3
    pipe.push(4.0)
    pipe.engine.drain()
    pipe.push(5.0, 6.0)
    pipe.engine.drain()
    assert count(pipe) == 6 and pipe.db.queries()[0]["matched"] == 6


def test_it_survives_a_restart_with_and_without_a_snapshot(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY tally AS {QUESTION}")
    pipe.push(1.0)
    pipe.engine.drain()
    first = pipe.db.invoke("tally").cycle
    pipe.push(2.0)
    pipe.engine.drain()
    pipe.restart()
    assert (count(pipe), count(pipe, first)) == (2, 1)
    pipe.db.standing.write_snapshot()
    pipe.push(3.0)
    pipe.engine.drain()
    pipe.restart()
    assert count(pipe) == 3


def test_a_subscriber_gets_each_new_count(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY tally AS {QUESTION}")
    pipe.engine.drain()
    subscription, seen = pipe.db.subscribe("tally"), list[int]()
    for value in (None, 4.0, 6.0):
        if value is not None:
            pipe.push(value)
            pipe.engine.drain()
        event = subscription.next(5)
        seen += event.table.column("readings").to_pylist() if event is not None else []
    assert seen == [0, 1, 2]
    subscription.close()


def test_pause_resume_and_drop(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY tally AS {QUESTION}")
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.db.execute("ALTER QUERY tally PAUSE")
    pipe.push(2.0)
    pipe.engine.drain()
    pipe.db.execute("ALTER QUERY tally RESUME")
    pipe.push(3.0)
    for _ in range(3):
        pipe.engine.drain()
    assert count(pipe) == 3  # what came in between is read as history
    pipe.db.execute("DROP QUERY tally")
    pipe.engine.drain()
    assert pipe.db.standing.store.states["tally"].matched(1) == 0


def test_a_past_time_is_answered_by_its_own_once_py(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY tally AS {QUESTION}")
    pipe.push(1.0, 2.0)
    past = format_timestamp(pipe.clock.now_us())
    pipe.push(3.0)
    pipe.engine.drain()
    assert count(pipe) == 3
    assert pipe.db.invoke("tally", past).table.column("readings").to_pylist() == [2]


def test_it_is_stored_described_and_explained(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY tally AS {QUESTION}")
    pipe.engine.drain()
    plan = plan_from_json(pipe.db.definition("tally").plan)
    assert isinstance(plan, TallyPlan) and plan_from_json(plan_to_json(plan)) == plan
    assert pipe.db.query("tally")["runs"] == "tally"
    (first, *_) = pipe.db.execute("EXPLAIN tally").table.column("plan").to_pylist()
    assert first.startswith("tally of readings")


def test_what_it_does_not_cover_is_planned_as_before(pipe: Pipe) -> None:
    state = pipe.db.catalog.state.frozen()
    for sql in (
        "SELECT COUNT(*) AS c FROM probes BEGIN (NOW - 1 HOUR) END (NOW)",
        "SELECT id, COUNT(*) AS c FROM probes GROUP BY id BEGIN (START) END (NOW)",
        "SELECT COUNT(*) AS c FROM probes WHERE value > 1 BEGIN (START) END (NOW)",
    ):
        assert isinstance(plan_query(parse_select(sql), state, True, SYSTEM_TABLES, joins=True), AggregatePlan)
