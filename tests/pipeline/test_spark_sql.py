"""What the runner gives to Spark, and what a caller hears when Spark dies under a statement."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from penstock.errors import PenstockError
from penstock.operators.sparksql.moments import moment_of
from penstock.pipeline.spark_sql import SparkRunner
from penstock.sql.parse import parse_select
from penstock.sql.plan import SparkPlan
from penstock.sql.planning.planner import plan_query
from tests.support.pipe import Pipe


class Gone:
    """A Spark session whose JVM died: reading still looks possible, everything after fails, tidying up too."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure
        self.dropped = 0
        self.schemas: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "sparkContext":
            return type("Context", (), {"defaultParallelism": 2})
        return self

    def format(self, *_: Any) -> Gone:
        return self

    def option(self, name: str, value: str) -> Gone:
        if name == "schema":
            self.schemas.append(value)
        return self

    load = format

    def createOrReplaceTempView(self, _: str) -> None:
        pass

    def _get_j_spark_session_class(self, _: Any) -> None:
        raise self._failure

    def dropTempView(self, _: str) -> None:
        self.dropped += 1
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize("failure", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111)])
def test_a_spark_that_died_is_told_as_not_ready_and_not_as_a_trace(pipe: Pipe, failure: Exception) -> None:
    pipe.probes()
    pipe.engine.drain()
    plan = plan_query(parse_select("SELECT COUNT(*) AS n FROM probes"), pipe.db.catalog.state, standing=False)
    assert isinstance(plan, SparkPlan)
    with pipe.db.standing.locked() as store:
        moment = moment_of(plan, store, None)
    gone = Gone(failure)
    with pytest.raises(PenstockError) as caught:
        SparkRunner(gone, pipe.db.folder, 10).run(plan, moment, {})  # type: ignore[arg-type]
    assert caught.value.condition == "not_ready"
    assert gone.dropped == 1


def test_a_column_is_one_name_in_the_schema_of_a_relation(pipe: Pipe) -> None:
    pipe.db.execute('CREATE TABLE odd (id INT PRIMARY KEY, "a` INT, `b" TEXT, "!" TEXT, r STREAM (x DOUBLE))')
    pipe.engine.drain()
    text = 'SELECT "a` INT, `b", "!" FROM odd ORDER BY id'
    plan = plan_query(parse_select(text), pipe.db.catalog.state, standing=False)
    assert isinstance(plan, SparkPlan)
    with pipe.db.standing.locked() as store:
        moment = moment_of(plan, store, None)
    gone = Gone(ConnectionRefusedError(111))
    with pytest.raises(PenstockError, match="restarted"):
        SparkRunner(gone, pipe.db.folder, 10).run(plan, moment, {})  # type: ignore[arg-type]
    assert gone.schemas == ["`id` INT, `a`` INT, ``b` STRING, `!` STRING"]
