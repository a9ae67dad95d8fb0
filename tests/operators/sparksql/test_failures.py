"""A query that fails is shown as failed, wherever it runs, and health names a damaged file."""

from __future__ import annotations

from penstock.errors import error
from penstock.operators.sparksql.evaluation_rows import Failure, put_failure
from tests.support.pipe import Pipe
from tests.views.test_next_edge import create_spark_query


def test_health_names_a_damaged_file_and_counts_the_queries_that_failed_of_it(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes")
    pipe.db.execute("CREATE QUERY high AS SELECT value FROM probes WHERE value > 5")
    pipe.engine.drain()
    assert "failed_queries" not in pipe.db.health().details
    pipe.push(1.0)
    table = pipe.db.catalog.state.tables["probes"].id
    (victim,) = (pipe.db.folder.log / str(table)).iterdir()
    victim.write_bytes(b"no Arrow at all")
    pipe.engine.drain()
    health = pipe.db.health()
    assert health.ready
    assert health.details["failed_queries"] == 2
    assert [victim.name in told for told in health.details["damage"]] == [True]


def test_a_query_that_spark_cannot_evaluate_is_shown_as_failed(pipe: Pipe) -> None:
    pipe.probes()
    create_spark_query(pipe, "counted", "SELECT COUNT(*) AS n FROM probes")
    pipe.db.evaluator.stop()
    pipe.engine.drain()
    definition = pipe.db.catalog.state.queries["counted"]
    assert pipe.db.query("counted")["state"] == "RUNNING"
    failure = error("engine_failed", detail="out of memory")
    put_failure(pipe.engine.commits.queue, definition.id, Failure(failure.condition, failure.message, failure.hint))
    shown = pipe.db.query("counted")
    assert (shown["state"], "out of memory" in shown["error"]) == ("FAILED", True)
