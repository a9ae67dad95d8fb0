"""Statements that end before their answer is there: between two pieces of the log, while they wait, and standing ones."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import Any

import pyarrow as pa
import pytest

from penstock.cancellation import Cancellation, cancelled_by, check
from penstock.errors import PenstockError
from penstock.operators.base.open_files import OpenFiles
from penstock.streams.log.segment_rows import read_slice
from tests.operators.sparksql.test_evaluator import COUNT, until
from tests.support.pipe import Pipe
from tests.support.watched import watched
from tests.views.test_next_edge import create_spark_query

SEGMENTS = 12
FROM_THE_LOG = {
    "an average over time": "SELECT TWA(value) AS a FROM probes BEGIN (NOW - 1 HOUR) END (NOW)",
    "RESAMPLE": "SELECT t.value, RESAMPLE(v.value, 5 SECONDS, LINEAR) AS w FROM probes t, probes v WHERE t.id = v.id"
    " BEGIN (NOW - 1 HOUR) END (NOW)",
    "a standing query": "SELECT * FROM seen",
    "a standing query at a past time": "SELECT * FROM seen AS OF NOW - 0 SECONDS",
    "rows of another query": "SELECT COUNT(value) AS n, MAX(value) AS m FROM seen",
}


@pytest.mark.parametrize("question", FROM_THE_LOG.values(), ids=FROM_THE_LOG)
def test_a_question_that_reads_the_log_ends_between_two_pieces(pipe: Pipe, question: str) -> None:
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY seen AS SELECT value, place FROM probes WHERE value > 0 BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    for number in range(SEGMENTS):
        pipe.push(number + 1.0)
    pipe.engine.drain()
    assert pipe.db.execute(question).table.num_rows
    pipe.push(100.0)  # what was kept of the answer before does not do
    pipe.engine.drain()
    cancellation = Cancellation()
    reading = watched(OpenFiles.read, read_slice, tell=lambda _: cancellation.cancel("in the middle of it"))
    with cancelled_by(cancellation), reading, pytest.raises(PenstockError, match="in the middle of it") as caught:
        pipe.db.execute(question)
    assert caught.value.condition == "statement_cancelled"
    # Nothing of it stays: the next one is answered, by whatever the server keeps.
    assert pipe.db.execute(question).table.num_rows
    assert pipe.db.running_statements() == []
    assert pipe.db.query("seen")["state"] == "RUNNING"


def test_a_statement_that_waits_for_a_cycle_ends_at_once(pipe: Pipe) -> None:
    pipe.probes()
    pipe.engine.drain()
    pipe.push(1.0)  # no cycle takes it in
    cancellation, caught = Cancellation(), []

    def ask() -> None:
        with pytest.raises(PenstockError) as failure:
            pipe.db.standing.feed.wait(lambda: False, 3600)
        caught.append(failure.value.condition)

    with cancelled_by(cancellation):
        thread = threading.Thread(target=copy_context().run, args=(ask,))
    thread.start()
    cancellation.cancel("enough")
    thread.join(60)
    assert caught == ["statement_cancelled"]


class SlowSpark:
    """Takes longer than it may, until it is told to be quick."""

    def __init__(self) -> None:
        self.runs = 0
        self.quick = False

    def run(self, *_: Any) -> pa.Table:
        self.runs += 1
        if not self.quick:
            cancellation = Cancellation()
            cancellation.limit(0)
            with cancelled_by(cancellation):
                check()
        return pa.table({"n": [self.runs]})


def test_a_standing_query_that_times_out_three_times_in_a_row_fails_until_it_is_resumed(pipe: Pipe) -> None:
    slow = SlowSpark()
    pipe.spark = lambda: slow
    pipe.probes()
    create_spark_query(pipe, "counted", COUNT)
    pipe.engine.drain()
    until(lambda: pipe.db.query("counted")["state"] == "FAILED")
    assert slow.runs == 3
    assert "3 times in a row" in pipe.db.query("counted")["error"]
    with pytest.raises(PenstockError) as caught:
        pipe.db.invoke("counted")
    assert caught.value.condition == "statement_timeout"
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.db.evaluator._due()
    assert slow.runs == 3  # new readings do not begin it anew
    slow.quick = True
    pipe.db.execute("ALTER QUERY counted PAUSE")
    pipe.engine.drain()
    pipe.db.execute("ALTER QUERY counted RESUME")
    pipe.engine.drain()
    until(lambda: slow.runs == 4 and pipe.db.query("counted")["error"] is None)
    assert pipe.db.invoke("counted").table["n"].to_pylist() == [4]
    assert pipe.db.query("counted")["state"] == "RUNNING"


def test_one_slow_evaluation_keeps_the_answer_before(pipe: Pipe) -> None:
    slow = SlowSpark()
    slow.quick = True
    pipe.spark = lambda: slow
    pipe.probes()
    create_spark_query(pipe, "counted", COUNT)
    pipe.engine.drain()
    assert pipe.db.invoke("counted").table["n"].to_pylist() == [1]
    slow.quick = False
    pipe.push(1.0)
    pipe.engine.drain()
    until(lambda: slow.runs == 2)
    slow.quick = True
    until(lambda: pipe.db.invoke("counted").table["n"].to_pylist()[0] > 2)
    assert pipe.db.query("counted")["state"] == "RUNNING"
