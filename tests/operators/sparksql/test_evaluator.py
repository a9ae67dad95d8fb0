"""Queries of Spark SQL, with a stand-in for Spark: their round, their errors, their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError, error
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.operators.sparksql.moments import moment_of
from penstock.sql.parse import parse_select
from penstock.sql.plan import SparkPlan
from penstock.sql.planning.planner import plan_query
from tests.support.new_query import new_query
from tests.support.pipe import Pipe
from tests.views.test_next_edge import create_spark_query

COUNT = "SELECT COUNT(*) AS n FROM probes"


class Runner:
    """Answers how often it was asked, or fails as it is told."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None

    def run(self, *_: Any) -> pa.Table:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return pa.table({"n": [self.asked]})


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.01)


@pytest.fixture
def runner(pipe: Pipe) -> Runner:
    found = Runner()
    pipe.spark = lambda: found
    pipe.probes()
    return found


def test_a_failure_of_the_round_itself_does_not_end_it(pipe: Pipe, runner: Runner) -> None:
    (service,) = pipe.db.evaluator.services()
    broken: list[int] = []
    whole = service.step

    def fail() -> float | None:
        broken.append(1)
        raise KeyError("probes")

    service.step = fail
    until(lambda: len(broken) > 1)
    service.step = whole
    create_spark_query(pipe, "counted", COUNT)
    pipe.engine.drain()
    assert pipe.db.invoke("counted").table.num_rows == 1


def test_nothing_of_a_dropped_query_is_kept(pipe: Pipe, runner: Runner) -> None:
    queries = pipe.db.evaluator
    runner.failure = error("engine_failed", detail="no")
    create_spark_query(pipe, "counted", COUNT)
    pipe.engine.drain()
    kept = pipe.db.standing.store.evaluations
    until(lambda: kept.failure(pipe.db.definition("counted").id) is not None)
    pipe.db.execute("DROP QUERY counted")
    pipe.engine.drain()
    until(lambda: not (kept.by_query or kept.confirmed or queries._inputs))


def test_the_answers_that_are_kept_are_the_querys_memory(pipe: Pipe, runner: Runner) -> None:
    create_spark_query(pipe, "counted", COUNT)
    pipe.engine.drain()
    pipe.db.invoke("counted")
    assert pipe.db.query("counted")["memory"] == sum(e.table.nbytes for _, e in kept(pipe)) > 0


def test_each_reader_of_a_failed_query_gets_an_error_of_its_own(pipe: Pipe, runner: Runner) -> None:
    runner.failure = error("engine_failed", detail="the disk is gone", hint="look at it")
    create_spark_query(pipe, "counted", COUNT)
    pipe.engine.drain()
    caught = []
    for _ in range(2):
        with pytest.raises(PenstockError, match="the disk is gone") as found:
            pipe.db.invoke("counted")
        caught.append(found.value)
    assert caught[0] is not caught[1]
    assert (caught[0].condition, caught[0].hint) == ("engine_failed", "look at it")


def test_a_subscriber_hears_at_once_that_its_query_was_dropped(pipe: Pipe, runner: Runner) -> None:
    create_spark_query(pipe, "counted", COUNT)
    pipe.engine.drain()
    subscription = pipe.db.subscribe("counted")
    assert subscription.next(60.0) is not None
    pipe.db.execute("DROP QUERY counted")
    pipe.engine.drain()
    with pytest.raises(PenstockError) as caught:
        subscription.next(3600.0)  # longer than any test may take
    assert caught.value.condition == "query_not_found"


def test_a_subscriber_waits_for_the_first_answer_no_longer_than_it_said(pipe: Pipe, runner: Runner) -> None:
    pipe.db.evaluator.stop()
    create_spark_query(pipe, "counted", COUNT)
    pipe.engine.drain()
    subscription = pipe.db.subscribe("counted")
    assert subscription.next(0.1) is None  # no answer ever comes


def ask_again(pipe: Pipe, runner: Runner) -> int:
    """Another reading, and the evaluation that it makes due; the cycle whose record brings it."""
    asked = runner.asked
    pipe.push(1.0)
    pipe.engine.drain()
    until(lambda: runner.asked > asked and [e.table["n"][0].as_py() for _, e in kept(pipe)][-1:] == [runner.asked])
    return kept(pipe)[-1][0]


def kept(pipe: Pipe) -> tuple[tuple[int, Evaluation], ...]:
    return pipe.db.standing.store.evaluations.by_query[pipe.db.definition("counted").id].kept


def test_a_subscriber_that_comes_back_gets_what_it_missed(pipe: Pipe, runner: Runner) -> None:
    create_spark_query(pipe, "counted", COUNT)
    cycles = [ask_again(pipe, runner) for _ in range(3)]
    subscription = pipe.db.subscribe("counted", from_cycle=cycles[0] + 1)
    events = [subscription.next(60.0), subscription.next(60.0)]
    assert [e.cycle for e in events if e is not None] == cycles[1:]
    assert subscription.next(0.0) is None
    changes = pipe.db.subscribe("counted", from_cycle=cycles[2], changes=True).next(60.0)
    assert changes is not None and changes.table.column("op").to_pylist() == ["-", "+"]


def test_a_subscriber_from_a_cycle_to_come_waits_for_it_and_gets_nothing_before(pipe: Pipe, runner: Runner) -> None:
    create_spark_query(pipe, "counted", COUNT)
    now = ask_again(pipe, runner)
    subscription = pipe.db.subscribe("counted", from_cycle=now + 3)
    ask_again(pipe, runner)
    assert subscription.next(0.0) is None
    last = now
    while last < now + 3:
        last = ask_again(pipe, runner)
    event = subscription.next(60.0)
    assert event is not None and event.cycle >= now + 3


def test_a_subscriber_from_a_cycle_whose_answer_is_gone_is_told_so(
    pipe: Pipe, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.operators.sparksql.state.KEPT_EVALUATIONS", 2)
    create_spark_query(pipe, "counted", COUNT)
    cycles = [ask_again(pipe, runner) for _ in range(4)]
    assert [cycle for cycle, _ in kept(pipe)] == cycles[2:]
    with pytest.raises(PenstockError) as caught:
        pipe.db.subscribe("counted", from_cycle=cycles[1])
    assert caught.value.condition == "cycle_gone" and str(cycles[2]) in caught.value.message


def test_a_standing_question_about_cycles_is_asked_again_after_each_cycle(pipe: Pipe, runner: Runner) -> None:
    pipe.engine.drain()
    sql = "SELECT COUNT(*) AS n FROM penstock.cycles"
    from penstock.catalog.system_columns import SYSTEM_TABLES
    from penstock.sql.plan import plan_to_json

    plan = plan_query(parse_select(sql), pipe.db.catalog.state, True, SYSTEM_TABLES)
    pipe.db.catalog.create_queries([new_query("cycles", sql, plan_to_json(plan), ())])
    pipe.engine.drain()
    until(lambda: runner.asked > 0)
    asked = runner.asked
    pipe.push(1.0)
    pipe.engine.drain()
    until(lambda: runner.asked > asked)


def test_a_question_about_a_table_that_no_cycle_knows_yet_is_told_to_wait(pipe: Pipe, runner: Runner) -> None:
    plan = plan_query(parse_select(COUNT), pipe.db.catalog.state, standing=False)
    assert isinstance(plan, SparkPlan)
    with pytest.raises(PenstockError) as caught:
        pipe.db.evaluator.run(plan, None)
    assert caught.value.condition == "not_ready"


def test_what_a_run_stands_for_does_not_change_under_it(pipe: Pipe, runner: Runner) -> None:
    pipe.push(1.0)
    pipe.push(2.0)
    pipe.engine.drain()
    table = pipe.db.catalog.state.tables["probes"].id
    plan = plan_query(parse_select(COUNT), pipe.db.catalog.state, standing=False)
    assert isinstance(plan, SparkPlan)
    with pipe.db.standing.locked() as store:
        moment = moment_of(plan, store, None)
    pipe.db.catalog.retain(table, 1)
    pipe.engine.drain()
    assert moment.state.retention(table) == 0
    pipe.db.execute("DROP TABLE probes")
    pipe.engine.drain()
    assert moment.state.position < pipe.db.standing.store.state.position
    assert moment.state.tables["probes"].id == table
    assert moment.state.rows(table).count == 2
