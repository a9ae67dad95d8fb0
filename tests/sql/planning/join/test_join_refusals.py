"""Window joins that cannot be meant, and what the errors point at."""

from __future__ import annotations

import pytest

from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import Select
from tests.sql.world import World
from tests.support.join_plans import refused, under_caret


@pytest.mark.parametrize(
    ("sql", "detail", "caret"),
    [
        (
            "SELECT a.ppm FROM sensors a, sensors b, loops c, loops d WINDOW(a,b) = '30s' AND WINDOW(c,d) = '1m'",
            'no window connects "c" and "d" with "a"',
            "WINDOW(a,b) = '30s' AND WINDOW(c,d) = '1m'",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b, loops c WINDOW(a,b) = '30s' BEGIN (START) END (NOW)",
            'no window connects "c" with "a"',
            "WINDOW(a,b) = '30s'",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b, loops c DWINDOW(a,b) = '30s' AND WINDOW(b,c) = '1h' "
            "AND WINDOW(b,a) BETWEEN '1m' AND '2m'",
            'no times can satisfy the windows between "a" and "b"',
            "WINDOW(b,a) BETWEEN '1m' AND '2m'",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b, loops c DWINDOW(a,b) = '30s' AND DWINDOW(b,c) = '30s' "
            "AND WINDOW(c,a) BETWEEN '5s' AND '9s'",
            'no times can satisfy the windows between "a", "b" and "c"',
            "WINDOW(c,a) BETWEEN '5s' AND '9s'",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW(b,b) = '1s'",
            '"b" has no window with itself',
            "WINDOW(b,b) = '1s'",
        ),
        ("SELECT a.ppm FROM sensors a WINDOW = '1s'", "a window needs two streams", "WINDOW = '1s'"),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) = -5 SECONDS",
            "a window cannot be negative",
            "WINDOW",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) BETWEEN 5 SECONDS AND 1 SECOND",
            "the window is empty: its low end lies past the high",
            "WINDOW",
        ),
        (
            "SELECT a.ppm FROM sensors a, my_segments m WINDOW(a,m) = '1s'",
            '"m" has no stream, and so no times to be near',
            "WINDOW(a,m) = '1s'",
        ),
        (
            "SELECT a.ppm FROM sensors a WHERE NOT EXISTS (SELECT 1 FROM loops b, loops c WINDOW(a,b) = '1s') "
            "BEGIN (NOW - 1 HOUR) END (NOW)",
            'no window connects "c" with "a"',
            "WINDOW(a,b) = '1s'",
        ),
    ],
)
def test_windows_that_cannot_be_meant_are_refused_at_their_clause(
    world: World, sql: str, detail: str, caret: str
) -> None:
    failure = refused(world, sql)
    assert (failure.condition, failure.message) == ("invalid_window", detail)
    assert under_caret(failure, sql) == caret
    assert failure.hint


@pytest.mark.parametrize(
    "clause", ["BEGIN (NOW - 1 HOUR)", "BEGIN (START) END ('2030-01-01')", "BEGIN ('2026-01-01') END ('2026-01-02')"]
)
def test_begin_and_end_can_stand_for_a_missing_window_in_spark_sql(world: World, clause: str) -> None:
    question = f"SELECT a.ppm FROM sensors a, loops b, loops c WINDOW(a,b) = '30s' {clause}"
    (statement,) = parse_script(question)
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, True, joins=True)
    assert isinstance(plan, SparkPlan)
    assert plan.reason == "a join of streams that only BEGIN .. END connects runs as Spark SQL"


def test_a_window_names_streams_outside_only_from_exists(world: World) -> None:
    inside = "(SELECT COUNT(*) FROM loops b WINDOW(a,b) = '1s')"
    failure = refused(world, f"SELECT a.ppm FROM sensors a WHERE 3 > {inside}")
    assert (failure.condition, failure.hint) == ("table_not_found", "the streams of FROM are b")


@pytest.mark.parametrize(
    "joined",
    [
        "sensors a RIGHT JOIN loops b ON a.ppm = b.speed",
        "sensors a JOIN sensors c ON TRUE LEFT JOIN loops b ON a.ppm = b.speed",
        "my_segments m LEFT JOIN sensors a ON TRUE LEFT JOIN loops b ON TRUE",
    ],
)
def test_other_outer_joins_within_a_window_are_refused(world: World, joined: str) -> None:
    sql = f"SELECT 1 FROM {joined} WINDOW = '1s'"
    failure = refused(world, sql)
    assert failure.condition == "not_supported"
    assert under_caret(failure, sql) == "WINDOW = '1s'"
