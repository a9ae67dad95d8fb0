"""Aggregates beside a subquery that is one value: what slices cover of it, and why the rest stays with Spark SQL."""

from __future__ import annotations

import pytest

from penstock.sql.plan import AggregatePlan, JoinAggregatePlan, SparkPlan, looks_of
from tests.sql.world import World
from tests.support.join_plans import stored

WINDOW = "BEGIN (NOW - 5 MINUTES) END (NOW)"
MEAN = "(SELECT AVG(speed) FROM loops)"


def test_the_recipe_is_slices_of_a_stream_with_tables_and_of_the_stream_itself(world: World) -> None:
    plan = stored(
        world,
        "SELECT l.segment, m.owner, AVG(l.speed) AS s FROM loops l, my_segments m WHERE m.segment = l.segment"
        f" GROUP BY l.segment, m.owner HAVING AVG(l.speed) < (SELECT 0.8 * AVG(speed) FROM loops) {WINDOW}",
    )
    assert isinstance(plan, JoinAggregatePlan)
    (scalar,) = plan.scalars
    assert scalar.inherits and str(scalar.plan.window) == "BEGIN (NOW - 5m) END (NOW)" and not scalar.plan.keys


def test_equal_subqueries_are_one_and_may_stand_anywhere_above_the_groups(world: World) -> None:
    plan = stored(
        world,
        f"SELECT segment, AVG(speed) / {MEAN} AS part, MAX(ts) - (SELECT MIN(ts) FROM loops BEGIN (START) END (NOW)) AS age,"
        f" CASE WHEN {MEAN} IS NULL THEN 0 ELSE COUNT(*) END AS n"
        f" FROM loops GROUP BY segment HAVING AVG(speed) > {MEAN} OR {MEAN} > 3 ORDER BY part DESC LIMIT 3 {WINDOW}",
    )
    assert isinstance(plan, AggregatePlan)
    assert [scalar.inherits for scalar in plan.scalars] == [True, False]
    assert [str(use.window) for use in looks_of(plan)] == ["BEGIN (NOW - 5m) END (NOW)", "BEGIN (START) END (NOW)"]


def test_where_time_passes_for_all_alike_a_subquery_may_be_about_other_sensors(world: World) -> None:
    plan = stored(world, f"SELECT AVG(speed) AS s FROM loops WHERE segment = 3 HAVING AVG(speed) < {MEAN} {WINDOW}")
    assert isinstance(plan, AggregatePlan)
    assert [use.static_predicate is None for use in looks_of(plan)] == [False, True]  # all of them are opened


@pytest.mark.parametrize(
    ("subquery", "reason"),
    [
        (
            "(SELECT AVG(i.ppm) FROM sensors i WHERE i.location = 'hall')",
            "a subquery about other sensors, in valid time,",
        ),
        ("(SELECT AVG(i.ppm) FROM sensors i WHERE i.location = s.location)", "a subquery about the group around it"),
        ("(SELECT AVG(i.ppm) FROM sensors i GROUP BY i.location)", "a subquery that need not be one row"),
        ("(SELECT i.ppm FROM sensors i ORDER BY i.ppm LIMIT 1)", "a subquery that need not be one row"),
        ("(SELECT AVG(speed) FROM loops)", "a subquery over another stream"),
        ("(SELECT APPROX_DISTINCT(gas_id) FROM sensors)", "an approximation in a subquery"),
        ("(SELECT AVG(i.ppm) FROM sensors i, my_segments m)", "a join"),
        ("(SELECT AVG(ppm) FROM sensors WHERE ppm > (SELECT MIN(ppm) FROM sensors))", "a subquery in a subquery"),
    ],
)
def test_what_would_be_another_question_stays_with_spark_sql(world: World, subquery: str, reason: str) -> None:
    sql = (
        f"SELECT s.location, AVG(s.ppm) AS v FROM sensors s GROUP BY s.location HAVING AVG(s.ppm) > {subquery} {WINDOW}"
    )
    plan = stored(world, sql)
    assert isinstance(plan, SparkPlan) and plan.reason.startswith(f"{reason} run"), plan.reason
    assert "scalar" not in plan.sql


def test_a_window_for_one_stream_would_not_be_what_the_subquery_inherits(world: World) -> None:
    plan = stored(world, f"SELECT AVG(l.speed) AS s FROM loops l HAVING AVG(l.speed) < {MEAN} {WINDOW} FOR l")
    assert isinstance(plan, SparkPlan) and "FOR one stream" in plan.reason
