"""Plans of version 1 in the journal: their text has holes, so the query is planned again from its own SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.sql.parse import parse_select
from penstock.sql.plan import SparkPlan, plan_to_json
from penstock.sql.planning.planner import plan_query, reads_of
from tests.operators.sparksql.test_evaluator import until
from tests.support.new_query import new_query
from tests.support.pipe import Pipe

SORTED = "SELECT value AS n FROM probes ORDER BY value"
POISON = "SELECT reflect('java.lang.System', 'getenv', 'PATH') AS `n` FROM {r0} AS `probes`"


class Runner:
    """Keeps the texts that it is asked to run."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def run(self, plan: SparkPlan, *_: Any) -> pa.Table:
        self.texts.append(plan.sql)
        return pa.table({"n": [1.0]})


def register_version_1(pipe: Pipe, name: str, sql: str, planned: str | None = None) -> None:
    """A query as the version before wrote it; `planned` is the SQL that its plan was made from, if another."""
    state = pipe.db.catalog.state
    plan = plan_query(parse_select(planned or sql), state, standing=True, joins=True)
    body = plan_to_json(plan)
    assert isinstance(plan, SparkPlan)
    body.pop("text", None)
    body["sql"] = POISON
    pipe.db.catalog.create_queries([new_query(name, sql, body, *reads_of(plan, state), pipe.clock.now_us())])


def reopened(pipe: Pipe) -> Runner:
    """The folder opened again, with a stand-in for Spark."""
    pipe.restart()
    runner = Runner()
    pipe.spark = lambda: runner
    pipe.engine.drain()
    return runner


def test_a_stored_text_with_holes_never_runs(pipe: Pipe) -> None:
    pipe.probes()
    register_version_1(pipe, "sorted", SORTED)
    pipe.push(1.0)
    pipe.engine.drain()
    runner = reopened(pipe)
    assert pipe.db.invoke("sorted").table.num_rows == 1
    pipe.db.execute("SELECT * FROM sorted AS OF NOW - 0 SECONDS")
    shown = "\n".join(pipe.db.execute("EXPLAIN sorted").table.column("plan").to_pylist())
    assert len(runner.texts) >= 2
    for text in (*runner.texts, shown):
        assert "IDENTIFIER(:r0)" in text and "reflect" not in text


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT value AS n, nothing AS m FROM probes ORDER BY value", "nothing"),
        ("SELECT value AS n, id FROM probes ORDER BY value", "other columns"),
        ("SELECT value AS n FROM", "planned"),
    ],
)
def test_a_query_that_cannot_be_planned_again_fails_alone(pipe: Pipe, sql: str, reason: str) -> None:
    pipe.probes()
    register_version_1(pipe, "broken", sql, planned=SORTED)
    register_version_1(pipe, "sorted", SORTED)
    pipe.push(1.0)
    pipe.engine.drain()
    runner = reopened(pipe)
    assert pipe.db.invoke("sorted").table.num_rows == 1
    until(lambda: pipe.db.query("broken")["state"] == "FAILED")
    assert reason in pipe.db.query("broken")["error"]
    with pytest.raises(PenstockError) as caught:
        pipe.db.invoke("broken")
    assert caught.value.hint is not None and "DROP QUERY" in caught.value.hint
    assert all("reflect" not in text for text in runner.texts)
    assert pipe.db.execute("EXPLAIN broken").table.num_rows > 0
    pipe.db.execute("DROP QUERY broken")


def test_a_stored_query_that_calls_an_unlisted_function_fails_with_its_name(pipe: Pipe) -> None:
    pipe.probes()
    sql = "SELECT CAST(reflect('java.lang.System', 'getenv', 'PATH') AS TEXT) AS n FROM probes ORDER BY value"
    register_version_1(pipe, "poison", sql, planned=SORTED)
    register_version_1(pipe, "sorted", SORTED)
    pipe.push(1.0)
    runner = reopened(pipe)
    assert pipe.db.invoke("sorted").table.num_rows == 1
    until(lambda: pipe.db.query("poison")["state"] == "FAILED")
    with pytest.raises(PenstockError) as caught:
        pipe.db.invoke("poison")
    assert caught.value.condition == "function_not_found"
    assert 'there is no function "reflect"' in caught.value.message
    assert all("reflect" not in text for text in runner.texts)
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute("SELECT * FROM poison AS OF NOW - 0 SECONDS")
    assert refused.value.condition == "function_not_found"


def test_a_stored_text_with_functions_that_backtrack_never_runs(pipe: Pipe) -> None:
    pipe.probes()
    state, sql = (
        pipe.db.catalog.state,
        "SELECT value AS n FROM probes WHERE CAST(value AS TEXT) ~ '(1+)+' ORDER BY value",
    )
    plan = plan_query(parse_select(sql), state, standing=True, joins=True)
    body = plan_to_json(plan)
    assert body.pop("linear")
    body["text"] = "SELECT `value` AS `n` FROM IDENTIFIER(:r0) WHERE CAST(`value` AS STRING) RLIKE '(?s)(1+)+'"
    pipe.db.catalog.create_queries([new_query("old", sql, body, *reads_of(plan, state), pipe.clock.now_us())])
    pipe.push(1.0)
    pipe.engine.drain()
    runner = reopened(pipe)
    assert pipe.db.invoke("old").table.num_rows == 1
    assert runner.texts and all("penstock_regexp_like(" in text and "RLIKE" not in text for text in runner.texts)
