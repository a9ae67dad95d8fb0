"""LATCH: a state without end, through retention, restarts, late rows, pauses and limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from penstock.catalog.system_columns import SYSTEM_TABLES
from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.sql.explain.plan import explain
from penstock.sql.parse import parse_select
from penstock.sql.plan import AggregatePlan, SparkPlan, plan_from_json
from penstock.sql.planning.planner import plan_query, reads_of
from penstock.views.standing_queries import Intervals
from tests.support.pipe import BEGAN_US, Pipe

SECOND = 1_000_000
HIGHEST = "SELECT place, MAX(value) AS high, COUNT(*) AS n FROM probes GROUP BY place, LATCH"


def rows(pipe: Pipe, name: str, as_of: int | None = None) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = pipe.db.standing.invoke(name, as_of).table.to_pylist()
    return answer


def forget(pipe: Pipe) -> int:
    """Retention takes what is too old; how far."""
    (table,) = pipe.db.catalog.state.tables.values()
    pipe.db.housekeeper.tend(table.id)
    pipe.engine.drain()
    pipe.db.housekeeper.tend(table.id)
    return pipe.db.catalog.state.retention(table.id)


@pytest.fixture
def small(pipes: Callable[..., Pipe]) -> Callable[..., Pipe]:
    """Databases with snapshots and merging soon."""
    return partial(pipes, intervals=Intervals(snapshot_cycles=5, trim_cycles=2))


def test_the_highest_value_outlives_its_reading_and_a_restart(small: Callable[..., Pipe]) -> None:
    pipe = small(cycles_keep=3)
    pipe.probes("WITH (retention = '10 SECONDS')")
    pipe.db.execute(f"CREATE QUERY best AS {HIGHEST}")
    pipe.push(99.0)
    pipe.push(7.0, sensor=2)
    pipe.engine.drain()
    for value in range(20):
        pipe.clock.advance(3 * SECOND)
        pipe.push(float(value))
        pipe.engine.drain()
        forget(pipe)
    assert forget(pipe) > 2
    expected = [{"place": "north", "high": 99.0, "n": 21}, {"place": "south", "high": 7.0, "n": 1}]
    assert rows(pipe, "best") == expected
    (family,) = pipe.db.standing.store.slices.families.values()
    assert all(len(known.cells) <= 10 for known in family.measures.values())
    pipe.restart()
    assert rows(pipe, "best") == expected
    assert pipe.db.invoke("best").complete_from_us is None


def test_history_counts_from_begin_on_and_what_was_gone_by_then_is_said(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes("WITH (retention = '10 SECONDS')")
    pipe.push(50.0)
    pipe.engine.drain()
    for value in (4.0, 5.0, 6.0):
        pipe.clock.advance(6 * SECOND)
        pipe.push(value)
        pipe.engine.drain()
    pipe.clock.advance(6 * SECOND)
    pipe.engine.drain()
    assert forget(pipe) > 0
    begin = format_timestamp(BEGAN_US)
    pipe.db.execute(f"CREATE QUERY since AS {HIGHEST} BEGIN (TIMESTAMP '{begin}')")
    pipe.db.execute(f"CREATE QUERY fresh AS {HIGHEST}")
    pipe.db.execute(f"CREATE QUERY lately AS {HIGHEST} BEGIN (START - 7 SECONDS)")
    pipe.engine.drain()
    kept = pipe.clock.now_us() - 10 * SECOND
    answer = pipe.db.invoke("since")
    assert answer.table.column("high").to_pylist() == [6.0] and answer.complete_from_us == kept
    assert rows(pipe, "fresh") == [] and rows(pipe, "lately") == [{"place": "north", "high": 6.0, "n": 1}]
    pipe.clock.advance(60 * SECOND)
    pipe.push(1.0)
    pipe.engine.drain()
    forget(pipe)
    assert rows(pipe, "since")[0]["high"] == 6.0 and rows(pipe, "fresh")[0]["high"] == 1.0
    assert pipe.db.invoke("since").complete_from_us == kept
    assert pipe.db.invoke("lately").complete_from_us is None
    pipe.restart()
    assert pipe.db.invoke("since").complete_from_us == kept


def test_retention_waits_until_a_long_history_is_told(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(fill_max_rows=2)
    pipe.probes("WITH (retention = '10 SECONDS')")
    for value in range(8):
        pipe.push(float(value))
    pipe.engine.drain()
    pipe.db.execute(f"CREATE QUERY best AS {HIGHEST} BEGIN (TIMESTAMP '{format_timestamp(BEGAN_US)}')")
    pipe.engine.cycle()
    with pytest.raises(PenstockError) as refused:
        pipe.db.standing.wait_ready("best", timeout_s=0)
    assert refused.value.condition == "not_ready"
    pipe.clock.advance(60 * SECOND)
    (table,) = pipe.db.catalog.state.tables.values()
    pipe.db.housekeeper.tend(table.id)
    assert pipe.db.catalog.state.retention(table.id) == 0
    pipe.db.execute("ALTER QUERY best PAUSE")
    pipe.engine.cycle()
    pipe.db.execute("ALTER QUERY best RESUME")
    pipe.engine.drain()
    assert forget(pipe) > 0
    assert rows(pipe, "best") == [{"place": "north", "high": 7.0, "n": 8}]


def test_a_paused_state_misses_nothing(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY best AS {HIGHEST}")
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.db.execute("ALTER QUERY best PAUSE")
    pipe.push(5.0)
    pipe.engine.drain()
    with pytest.raises(PenstockError):
        pipe.db.standing.invoke("best")
    pipe.db.execute("ALTER QUERY best RESUME")
    pipe.engine.drain()
    assert rows(pipe, "best") == [{"place": "north", "high": 5.0, "n": 2}]


def test_kept_cycles_answer_as_they_did_and_subscribers_get_each_new_value(small: Callable[..., Pipe]) -> None:
    pipe = small(cycles_keep=30)
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY best AS {HIGHEST}")
    pipe.engine.drain()
    watching = pipe.db.subscribe("best", changes=True)
    watching.next(0)
    said = {}
    for value in (3.0, 1.0, 8.0, 2.0, 9.0, 9.0, 1.0, 10.0, 4.0, 5.0, 6.0, 11.0):
        pipe.push(value)
        pipe.engine.drain()
        result = pipe.db.standing.invoke("best")
        said[result.cycle] = result.table.to_pylist()
    for cycle, answer in said.items():
        assert rows(pipe, "best", cycle) == answer
    event = watching.next(60.0)
    assert event is not None and event.table.to_pylist() == [{"op": "+", "place": "north", "high": 3.0, "n": 1}]
    event = watching.next(60.0)
    assert event is not None and [row["op"] for row in event.table.to_pylist()] == ["-", "+"]


def test_values_kept_one_by_one_have_a_limit_that_the_error_names(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(exact_values_max=100)
    pipe.probes("WITH (retention = '10 SECONDS')")
    pipe.db.execute("CREATE QUERY kinds AS SELECT COUNT(DISTINCT value) AS n FROM probes GROUP BY LATCH")
    pipe.push(*(float(i) for i in range(60)))
    pipe.engine.drain()
    assert rows(pipe, "kinds") == [{"n": 60}]
    pipe.push(*(float(i) for i in range(60, 120)))
    pipe.engine.drain()
    with pytest.raises(PenstockError) as refused:
        pipe.db.standing.invoke("kinds")
    assert refused.value.condition == "over_budget" and "exact_values_max" in refused.value.message
    for advance in (60, 60):
        pipe.clock.advance(advance * SECOND)
        pipe.push(0.0)
        pipe.engine.drain()
    forget(pipe)
    pipe.db.execute("ALTER QUERY kinds PAUSE")
    pipe.db.execute("ALTER QUERY kinds RESUME")
    pipe.engine.drain()
    with pytest.raises(PenstockError) as lost:
        pipe.db.standing.invoke("kinds")
    assert lost.value.hint == "drop the query, create it anew"


def test_its_window_stays_what_it_is(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY best AS {HIGHEST}")
    plan = plan_from_json(pipe.db.catalog.state.queries["best"].plan)
    assert isinstance(plan, AggregatePlan) and plan.latch is not None
    pipe.engine.drain()
    for statement in ("ALTER QUERY best SET BEGIN (NOW - 1 HOUR)", "SELECT * FROM best AS OF NOW"):
        with pytest.raises(PenstockError) as refused:
            pipe.db.execute(statement)
        assert refused.value.condition == "not_supported" and refused.value.hint, statement
    told = "\n".join(pipe.db.execute("EXPLAIN best").table.column("plan").to_pylist())
    assert "latch: rows count for ever" in told and "pieces of the log" in told


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (
            "SELECT DISTINCT MAX(value) AS high FROM probes GROUP BY place, LATCH ORDER BY MIN(value)",
            "an order by something that is not in the SELECT list",
        ),
        ("SELECT MAX(value, 5 MINUTES) FROM probes GROUP BY LATCH", "a window of its own"),
        (
            "SELECT DISTINCT ON (place) place, MAX(value) FROM probes GROUP BY place, LATCH",
            "DISTINCT ON over aggregates",
        ),
        ("SELECT COUNT(*) FROM probes WHERE value >= (SELECT MAX(value) FROM probes) GROUP BY LATCH", "a subquery"),
        ("SELECT MAX(a.value) FROM probes a, probes b WINDOW = 1 SECOND GROUP BY LATCH", "an aggregate"),
    ],
)
def test_what_spark_would_run_has_no_state_and_says_so(pipe: Pipe, question: str, why: str) -> None:
    pipe.probes()
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"CREATE QUERY best AS {question}")
    assert refused.value.condition == "not_supported" and "LATCH" in refused.value.message
    assert why in str(refused.value.hint) and refused.value.line is not None


def test_another_question_reads_its_state_and_not_the_log(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY best AS {HIGHEST}")
    pipe.push(4.0, 9.0)
    pipe.engine.drain()
    for standing_one in (False, True):
        asked = parse_select("SELECT high FROM best b, probes p WHERE b.place = p.place AND high > 3")
        plan = plan_query(asked, pipe.db.catalog.state, standing_one, SYSTEM_TABLES, joins=True)
        assert isinstance(plan, SparkPlan) and [r.kind for r in plan.relations] == ["state", "static"]
        assert reads_of(plan, pipe.db.catalog.state)[:2] == (("probes",), ("best",))
        given = pipe.db.system.for_plan(plan)
        assert given["r0"].to_pylist() == [{"place": "north", "high": 9.0, "n": 2}]
        assert 'state of query "best"' in explain(plan, pipe.db.catalog.state)


def test_counting_rows_alone_is_about_readings(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY ever AS SELECT COUNT(*) AS n FROM probes GROUP BY LATCH")
    pipe.engine.drain()
    assert rows(pipe, "ever") == [{"n": 0}]
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    assert rows(pipe, "ever") == [{"n": 2}]


def test_a_column_called_latch_is_a_column(pipe: Pipe) -> None:
    pipe.db.execute("CREATE TABLE doors (id INT PRIMARY KEY, latch TEXT, reading STREAM (value DOUBLE))")
    pipe.db.execute("INSERT INTO doors VALUES (1, 'shut', NULL)")
    pipe.db.execute("CREATE QUERY q AS SELECT latch, MAX(value) AS m FROM doors GROUP BY latch")
    plan = plan_from_json(pipe.db.catalog.state.queries["q"].plan)
    assert isinstance(plan, AggregatePlan) and plan.latch is None and len(plan.keys) == 1


def test_two_queries_of_one_name_one_after_the_other_have_two_states(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY best AS {HIGHEST}")
    pipe.push(9.0)
    pipe.engine.drain()
    pipe.db.execute("DROP QUERY best")
    pipe.clock.advance(SECOND)
    pipe.db.execute(f"CREATE QUERY best AS {HIGHEST}")
    pipe.push(2.0)
    pipe.engine.drain()
    assert rows(pipe, "best") == [{"place": "north", "high": 2.0, "n": 1}]


def test_approximate_states_do_not_grow_and_keep_their_promise(small: Callable[..., Pipe]) -> None:
    pipe = small(cycles_keep=3, exact_values_max=50)
    pipe.probes("WITH (retention = '10 SECONDS')")
    pipe.db.execute(
        "CREATE QUERY kinds AS SELECT APPROX_DISTINCT(value) AS d, APPROX_COUNT(*) AS n, APPROX_PERCENTILE(value, 0.5) AS p"
        " FROM probes GROUP BY LATCH WITH ERROR"
    )
    for turn in range(12):
        pipe.clock.advance(3 * SECOND)
        pipe.push(*(float(100 * turn + i) for i in range(100)))
        pipe.engine.drain()
        forget(pipe)
    pipe.restart()
    (row,) = rows(pipe, "kinds")
    assert row["n"] == 1200 and abs(row["d"] - 1200) <= max(row["d_error"], 0.05 * 1200)
    assert abs(row["p"] - 600) <= 24
