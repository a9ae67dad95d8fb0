"""What the streaming query asks of Spark, and a release of Spark may take away."""

from __future__ import annotations

from bench.task_floor import floors_ms
from penstock.database.database import Database
from tests.spark.asking import eventually

ADAPTIVE = "AdaptiveSparkPlan"


def test_the_adaptive_planner_is_for_statements_alone(db: Database) -> None:
    spark = db.engine.spark
    assert spark is not None
    asked = spark.range(10).repartition(2)._jdf.queryExecution().toString()
    stream = spark.readStream.format("rate").load().repartition(2)
    query = stream.writeStream.foreachBatch(lambda frame, number: None).start()
    try:
        eventually(lambda: query.lastProgress is not None)
        streamed = query._jsq.explainInternal(False)
    finally:
        query.stop()
    assert "Exchange" in streamed and ADAPTIVE not in streamed
    assert ADAPTIVE in asked


def test_a_python_task_does_not_wait_for_delayed_acknowledgements(db: Database) -> None:
    """They take 40 ms, in every task."""
    assert db.engine.spark is not None
    tasks, _ = floors_ms(db.engine.spark, 20)
    assert min(tasks) < 35
