"""Aggregates over windows of their own in Spark SQL: each SELECT of a question has its own."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.plan import SparkPlan
from tests.sql.world import World

FIVE, ONE = "BEGIN (NOW - 5m) END (NOW)", "BEGIN (NOW - 1m) END (NOW)"


@pytest.mark.parametrize("standing", [True, False])
@pytest.mark.parametrize(
    ("sql", "windows"),
    [
        ("SELECT a + 1 AS b FROM (SELECT AVG(speed, 5 MINUTES) AS a FROM loops)", [FIVE]),
        ("SELECT owner, (SELECT AVG(speed, 5 MINUTES) FROM loops) AS a FROM my_segments", [None, FIVE]),
        (
            "SELECT COUNT(speed, 5 MINUTES) AS n FROM loops WHERE speed > (SELECT AVG(speed, 5 MINUTES) FROM loops)",
            [FIVE, FIVE],
        ),
        (
            "SELECT COUNT(speed, 5 MINUTES) AS n FROM loops WHERE speed > (SELECT AVG(speed, 1 MINUTE) FROM loops)",
            [FIVE, ONE],
        ),
    ],
)
def test_a_select_inside_another_keeps_its_window(
    world: World, sql: str, windows: list[str | None], standing: bool
) -> None:
    plan = world.plan(sql, standing=standing)
    assert isinstance(plan, SparkPlan)
    assert [relation.window and str(relation.window) for relation in plan.relations] == windows


def test_a_select_inside_another_with_two_windows_is_refused_where_it_stands(world: World) -> None:
    sql = "SELECT a FROM (SELECT AVG(speed, 5 MINUTES) AS a, AVG(speed, 1 MINUTE) AS b FROM loops)"
    with pytest.raises(PenstockError, match="beside another window") as failure:
        world.plan(sql)
    assert failure.value.column == sql.index("speed") + 1
