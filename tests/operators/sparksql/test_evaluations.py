"""Evaluations of Spark SQL in the commit records, with a stand-in for Spark: what survives, and what readers see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.cycle.record_queue import wants_cycle
from penstock.errors import PenstockError, error
from penstock.operators.sparksql.evaluation_rows import EVALUATION
from tests.operators.sparksql.test_evaluator import COUNT, until
from tests.support.pipe import Pipe
from tests.views.test_next_edge import create_spark_query


class Runner:
    """Counts the readings of the table, as the query says."""

    def __init__(self, pipe: Pipe, rows: int = 1) -> None:
        self.pipe = pipe
        self.rows = rows
        self.asked = 0

    def run(self, plan: Any, moment: Any, *_: Any) -> pa.Table:
        self.asked += 1
        count = sum(moment.offset.data.values())
        return pa.table({"n": [count] * self.rows})


class NoSpark:
    def run(self, *_: Any) -> pa.Table:
        raise error("not_ready", detail="Spark is starting")


def use(pipe: Pipe, runner: Any) -> None:
    pipe.spark = lambda: runner


def counted(pipe: Pipe, count: int) -> None:
    """Wait for the answer that has all readings."""
    until(lambda: pipe.db.invoke("counted").table["n"][0].as_py() == count)


@pytest.fixture
def runner(pipe: Pipe) -> Runner:
    found = Runner(pipe)
    use(pipe, found)
    pipe.probes()
    create_spark_query(pipe, "counted", COUNT)
    pipe.push(1.0)
    pipe.engine.drain()
    counted(pipe, 1)
    return found


def restart_without_spark(pipe: Pipe) -> None:
    pipe.db.stop()
    pipe.open()
    use(pipe, NoSpark())


def test_an_answer_is_there_after_a_restart_before_spark_is(pipe: Pipe, runner: Runner) -> None:
    before = pipe.db.invoke("counted")
    restart_without_spark(pipe)
    after = pipe.db.invoke("counted")
    assert after.table.equals(before.table) and (after.cycle, after.now_us) == (before.cycle, before.now_us)


def test_an_answer_is_there_after_a_restart_from_a_snapshot(pipe: Pipe, runner: Runner) -> None:
    pipe.db.standing.write_snapshot()
    pipe.engine.commits.prune(pipe.db.standing.store.cycle)
    restart_without_spark(pipe)
    assert pipe.db.invoke("counted").table["n"].to_pylist() == [1]


def test_a_large_answer_is_a_file_that_lives_as_long_as_it_is_named(pipe: Pipe, runner: Runner) -> None:
    runner.rows = 50_000
    pipe.push(2.0)
    pipe.engine.drain()
    counted(pipe, 2)
    (file,) = (pipe.folder / "results").glob("*.arrow")
    pipe.db.standing.write_snapshot()
    pipe.engine.commits.prune(pipe.db.standing.store.cycle)
    restart_without_spark(pipe)
    assert pipe.db.invoke("counted").table.num_rows == 50_000 and file.exists()


def test_a_damaged_file_fails_its_query_until_the_next_evaluation(pipe: Pipe, runner: Runner) -> None:
    runner.rows = 50_000
    pipe.push(2.0)
    pipe.engine.drain()
    counted(pipe, 2)
    (file,) = (pipe.folder / "results").glob("*.arrow")
    file.write_bytes(b"nothing of the kind")
    restart_without_spark(pipe)
    with pytest.raises(PenstockError) as caught:
        pipe.db.invoke("counted")
    assert caught.value.condition == "corrupt_segment"
    use(pipe, runner)
    pipe.push(3.0)
    pipe.engine.drain()
    until(lambda: pipe.db.query("counted")["state"] == "RUNNING")
    counted(pipe, 3)


def test_older_cycles_answer_and_a_subscriber_comes_back_after_a_restart(pipe: Pipe, runner: Runner) -> None:
    first = pipe.db.standing.store.cycle
    for count in (2, 3):
        pipe.push(float(count))
        pipe.engine.drain()
        counted(pipe, count)
    assert pipe.db.invoke("counted", first).table["n"].to_pylist() == [1]
    restart_without_spark(pipe)
    assert pipe.db.invoke("counted", first).table["n"].to_pylist() == [1]
    subscription = pipe.db.subscribe("counted", from_cycle=first + 1)
    events = [subscription.next(60.0), subscription.next(60.0)]
    assert [e.table["n"].to_pylist() for e in events if e is not None] == [[2], [3]]
    assert subscription.next(0.0) is None


def test_the_same_rows_are_not_written_twice_and_an_idle_server_rests(pipe: Pipe, runner: Runner) -> None:
    pipe.db.execute("CREATE TABLE others (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
    pipe.engine.drain()
    asked = runner.asked

    def evaluations() -> int:
        records = (pipe.engine.commits.read(c) for c in list(pipe.engine.commits._cycles))
        return sum(r.results.column("kind").to_pylist().count(EVALUATION) for r in records)

    written = evaluations()
    pipe.db.execute("INSERT INTO probes VALUES (3, 'east', NULL)")  # it may change what the query reads
    pipe.engine.drain()
    query = pipe.db.definition("counted").id
    until(lambda: runner.asked > asked and query in pipe.db.standing.store.evaluations.confirmed)
    assert evaluations() == written
    assert not wants_cycle(pipe.db.folder) and pipe.engine.cycle() is None


def test_a_paused_query_rests_and_a_resumed_one_answers_anew(pipe: Pipe, runner: Runner) -> None:
    pipe.db.execute("ALTER QUERY counted PAUSE")
    pipe.push(2.0)
    pipe.engine.drain()
    with pytest.raises(PenstockError, match="PAUSED"):
        pipe.db.invoke("counted")
    use(pipe, NoSpark())
    pipe.db.execute("ALTER QUERY counted RESUME")
    pipe.engine.drain()
    assert pipe.db.standing.is_resting("counted")
    use(pipe, runner)
    assert pipe.db.invoke("counted").table["n"].to_pylist() == [2]


def test_rows_that_come_back_while_others_wait_for_a_record_are_the_answer(pipe: Pipe, runner: Runner) -> None:
    pipe.engine.commits.queue.on_put = lambda: None  # the test runs the cycles
    pipe.push(2.0)
    pipe.engine.drain()
    until(lambda: bool(pipe.engine.commits.queue.waiting()))
    query = pipe.db.definition("counted").id
    with pipe.db.standing.locked() as store:
        known = store.evaluations.by_query[query].last
    assert known is not None
    pipe.db.evaluator._tell(query, replace(known, cycle=pipe.db.standing.store.cycle))
    pipe.db.evaluator.stop()
    pipe.engine.cycle()
    assert pipe.db.invoke("counted").table["n"].to_pylist() == [1]


def test_a_kill_between_evaluation_and_record_costs_no_answer(pipe: Pipe, runner: Runner, tmp_path: Path) -> None:
    pipe.engine.commits.queue.on_put = lambda: None  # no cycle comes, as if the server died now
    pipe.push(2.0)
    pipe.engine.drain()
    until(lambda: bool(pipe.engine.commits.queue.waiting()))
    assert wants_cycle(pipe.db.folder) and pipe.db.invoke("counted").table["n"].to_pylist() == [1]
    pipe.restart()
    use(pipe, runner)
    counted(pipe, 2)
