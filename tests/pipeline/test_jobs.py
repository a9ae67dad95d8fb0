"""The jobs of a statement in Spark, with a Spark that only notes what it is asked."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cancellation import Cancellation, cancelled_by
from penstock.errors import PenstockError
from penstock.pipeline.jobs import statement_jobs

PATIENCE_S = 60.0


class NotedSpark:
    """A session whose context notes the threads that end jobs."""

    def __init__(self) -> None:
        self.cancelled: dict[str, threading.Thread] = {}
        self.ended = threading.Event()
        self.sparkContext = self
        self._jsc = SimpleNamespace(sc=lambda: self)

    def setJobGroup(self, *_: Any, **__: Any) -> None: ...

    def setLocalProperty(self, *_: Any) -> None: ...

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:
        self.cancelled[group] = threading.current_thread()
        self.ended.set()


def test_the_thread_that_cancels_a_statement_never_waits_for_spark() -> None:
    spark, cancellation = NotedSpark(), Cancellation()
    with cancelled_by(cancellation), pytest.raises(PenstockError, match="enough"), statement_jobs(spark):  # type: ignore[arg-type]
        cancellation.cancel("enough")  # as the event loop does when a client leaves
        assert spark.ended.wait(PATIENCE_S)
        raise RuntimeError("job cancelled")
    assert spark.cancelled[cancellation.id] is not threading.current_thread()


def test_the_jobs_of_a_statement_that_is_late_are_ended() -> None:
    spark, cancellation = NotedSpark(), Cancellation()
    cancellation.limit(0.01)
    with cancelled_by(cancellation), pytest.raises(PenstockError, match="longer than"):
        with statement_jobs(spark):  # type: ignore[arg-type]
            assert spark.ended.wait(PATIENCE_S)
            raise RuntimeError("job cancelled")
    assert list(spark.cancelled) == [cancellation.id]


def test_jobs_that_spark_submits_after_the_cancellation_are_ended_too() -> None:
    """Spark refuses later jobs of a cancelled group, but not the stages that its adaptive planner submits one by one."""
    spark, cancellation = NotedSpark(), Cancellation()
    with cancelled_by(cancellation), pytest.raises(PenstockError, match="enough"), statement_jobs(spark):  # type: ignore[arg-type]
        cancellation.cancel("enough")
        assert spark.ended.wait(PATIENCE_S)
        spark.ended.clear()  # and now Spark submits a stage
        again = spark.ended.wait(PATIENCE_S)
        raise RuntimeError("job cancelled")
    assert again


def test_nothing_is_ended_after_a_statement_in_time() -> None:
    spark, cancellation = NotedSpark(), Cancellation()
    with cancelled_by(cancellation), statement_jobs(spark):  # type: ignore[arg-type]
        pass
    for thread in threading.enumerate():
        if thread.name == f"penstock-{cancellation.id}":
            thread.join(PATIENCE_S)
    assert not spark.cancelled
