"""Functions as PostgreSQL means them, evaluated by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from penstock.database.database import Database
from penstock.sql.plan import SparkPlan
from penstock.sql.spark.text import NOW
from penstock.types import Type, parse_type
from scripts.postgres_differences import DIFFERENCES
from tests.sql.world import World
from tests.support.postgres_calls import (
    AGGREGATES,
    CALLS,
    COLUMNS,
    DECLARED,
    LISTED,
    ROWS,
    Answers,
    differences,
    equal,
    function_of,
    python_value,
    row_values,
    type_fits,
)

_ALIVE = 2**62


@pytest.fixture(scope="module")
def answers(postgres_answers: Answers) -> Answers:
    return postgres_answers


@pytest.fixture(scope="module")
def session(database: Database) -> Iterator[SparkSession]:
    """The session, with the rows of edge values as the view `v`."""
    found = database.engine.spark  # type: ignore[attr-defined]
    assert isinstance(found, SparkSession)
    values = {name: [python_value(name, value) for value in row_values(name)] for name in COLUMNS}
    kinds = {name: parse_type(ours).to_spark() for name, (ours, _, _) in COLUMNS.items()}
    declared = ", ".join(f"{name} {'BIGINT' if kind == 'TIMESTAMP' else kind}" for name, kind in kinds.items())
    rows = [(row, *(column[row] for column in values.values()), 0, _ALIVE) for row in range(ROWS)]
    frame = found.createDataFrame(rows, f"id INT, {declared}, _born BIGINT, _died BIGINT")
    for name, kind in kinds.items():
        if kind == "TIMESTAMP":
            frame = frame.withColumn(name, sf.timestamp_micros(name))
    frame.coalesce(1).createOrReplaceTempView("v")
    yield found
    found.catalog.dropTempView("v")


def spark_answers(session: SparkSession, calls: list[str], key: str, group: str = "") -> list[tuple[Type, list[Any]]]:
    """Type and values of each call, in one statement."""
    world = World()
    world.run(f"CREATE TABLE v (id INT PRIMARY KEY, {DECLARED})")
    items = ", ".join(f"{call} AS x{i}" for i, call in enumerate(calls))
    plan = world.plan(f"SELECT {key}, {items} FROM v {group}", shared=False)
    assert isinstance(plan, SparkPlan)
    frame = session.sql(plan.sql, args={"r0": "v", NOW: 0})
    for name, type_ in plan.outputs:
        if type_.kind == "TIMESTAMP":
            frame = frame.withColumn(name, sf.unix_micros(name))
    rows = sorted(frame.collect(), key=lambda row: row[0])
    return [(plan.outputs[i + 1][1], [row[i + 1] for row in rows]) for i in range(len(calls))]


def test_spark_answers_as_postgresql_does(session: SparkSession, answers: Answers) -> None:
    differing = {}
    found = [*spark_answers(session, CALLS, "id"), *spark_answers(session, AGGREGATES, "g", "GROUP BY g")]
    for call, (type_, values) in zip([*CALLS, *AGGREGATES], found, strict=True):
        postgres, wanted = answers[call]
        assert type_fits(postgres, type_), (call, postgres, type_)
        pairs = differences(wanted, values, type_)
        if pairs:
            differing[call] = pairs
    assert {call: pairs for call, pairs in differing.items() if function_of(call) not in LISTED} == {}
    assert {function_of(call) for call in differing} == LISTED


def test_examples_of_differences_are_as_the_reference_says(session: SparkSession) -> None:
    found = spark_answers(session, [difference.call for difference in DIFFERENCES], "id")
    wrong = [(d, v[0]) for d, (_, v) in zip(DIFFERENCES, found, strict=True) if not equal(v[0], d.penstock)]
    assert wrong == []


def test_groups_logarithms_and_quotients_are_those_of_postgresql(db: Database) -> None:
    answer = db.execute(
        "SELECT REGEXP_EXTRACT('ab12', '([a-z]+)([0-9]+)', 2) AS g, LOG(100) AS l, LOG(2, 8) AS l2, DIV(7, 2) AS q, "
        "DIV(-7, 2) AS n, DIV(7.5, 2) AS d, TRUNC(2.675, 2) AS t, TRUNC(-2.5) AS m, TRUNC(1234, -2) AS h"
    ).table.to_pylist()
    assert answer == [{"g": "12", "l": 2.0, "l2": 3.0, "q": 3, "n": -3, "d": 3.0, "t": 2.67, "m": -2.0, "h": 1200}]
