"""Questions that two window joins answer together: a path both ways, and FULL JOIN."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError, expect
from penstock.operators.union.aggregates.plan import UnionAggregatePlan
from penstock.operators.union.plan import UnionPlan
from penstock.sql.explain.notation import show
from penstock.sql.parse import parse_script
from penstock.sql.plan import AggregatePlan, JoinAggregatePlan, JoinPlan, Plan, SparkPlan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import Select
from tests.sql.world import World
from tests.support.join_plans import S, refused, under_caret

ROAD = "FROM loops a, loops b, loops c DWINDOW PATH(a, b, c) = 30 SECONDS"


def plan_of(world: World, sql: str) -> Plan:
    (statement,) = parse_script(sql)
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, standing=True, joins=True)
    assert plan_from_json(plan_to_json(plan)) == plan
    return plan


def joins_of(world: World, sql: str) -> list[JoinPlan]:
    plan = plan_of(world, sql)
    assert isinstance(plan, UnionPlan)
    found = [branch.pure_join for branch in plan.branches]
    assert plan.columns == found[1].columns  # type: ignore[union-attr]
    return [join for join in found if join is not None]


def test_a_path_is_a_window_between_each_stream_and_the_next(world: World) -> None:
    for word, short in (
        ("WINDOW", "WINDOW(a,b) = '9s' AND WINDOW(b,c) = '9s'"),
        ("DWINDOW", "DWINDOW(a,b) = '9s' AND DWINDOW(b,c) = '9s'"),
    ):
        sources = "SELECT a.speed FROM loops a, loops b, loops c"
        assert plan_of(world, f"{sources} {word} PATH(a, b, c) = 9 SECONDS") == plan_of(world, f"{sources} {short}")


def test_a_path_both_ways_is_a_join_per_direction_without_a_condition(world: World) -> None:
    forward, backward = joins_of(world, f"SELECT a.speed, c.speed AS last {ROAD} BOTH WAYS WHERE a.loop_id = b.loop_id")
    assert forward.bounds == ((0, 30 * S, 60 * S), (0, 0, 30 * S), (0, 0, 0))
    assert backward.bounds == ((0, 0, -1), (30 * S, 0, 0), (60 * S, 30 * S, 0))  # c is before a, not at the same time
    for join in (forward, backward):
        assert [show(condition) for condition in join.conditions] == ["a.loop_id = b.loop_id"]


def test_a_path_of_two_streams_both_ways(world: World) -> None:
    forward, backward = joins_of(world, "SELECT a.speed FROM loops a, loops b DWINDOW PATH(a, b) = 1 SECOND BOTH WAYS")
    assert (forward.bounds, backward.bounds) == (((0, S), (0, 0)), ((0, -1), (S, 0)))


def test_a_path_of_no_length_has_one_direction(world: World) -> None:
    plan = plan_of(world, "SELECT a.speed FROM loops a, loops b DWINDOW PATH(a, b) = 0 SECONDS BOTH WAYS")
    assert isinstance(plan, JoinPlan) and plan.bounds == ((0, 0), (0, 0))


def test_other_windows_hold_for_both_directions(world: World) -> None:
    sql = f"SELECT a.speed {ROAD.replace('loops c', 'loops c, loops d')} BOTH WAYS AND WINDOW(c, d) = 5 SECONDS"
    for join in joins_of(world, sql):
        assert (join.bounds[2][3], join.bounds[3][2]) == (5 * S, 5 * S)


@pytest.mark.parametrize("clause", ["GROUP BY a.loop_id", ""])
def test_aggregates_of_a_path_both_ways_are_those_of_one_join_that_tests_the_order(world: World, clause: str) -> None:
    plan = plan_of(world, f"SELECT COUNT(*) AS c {ROAD} BOTH WAYS {clause}")
    assert isinstance(plan, JoinAggregatePlan)
    assert plan.join.bounds[0][1] == plan.join.bounds[1][0] == 30 * S
    (condition,) = plan.join.conditions
    assert show(condition) == "((a.ts <= b.ts) AND (b.ts <= c.ts)) OR ((a.ts >= b.ts) AND (b.ts >= c.ts))"


def test_a_full_join_is_a_left_join_and_the_rest_of_the_right_side(world: World) -> None:
    left, rest = joins_of(
        world,
        "SELECT a.ppm, b.speed FROM sensors a FULL JOIN loops b"
        " ON a.sensor_id = b.loop_id AND a.ppm > 3 AND b.loop_id = 7 WINDOW(a, b) BETWEEN -1 SECOND AND 9 SECONDS",
    )
    assert (left.missing, rest.missing) == ("left", "anti")
    assert [i.alias for i in left.inputs] == ["a", "b"] and [i.alias for i in rest.inputs] == ["b", "a"]
    assert (left.bounds, rest.bounds) == (((0, 9 * S), (S, 0)), ((0, S), (9 * S, 0)))
    # Every sensor counts on both sides, so that both joins have one NOW.
    assert all(i.static_predicate is None for join in (left, rest) for i in join.inputs)
    assert [show(c) for c in left.conditions] == ["a.ppm > 3.0"]
    assert [show(c) for c in rest.conditions] == ["b.loop_id = 7"]


UNITED = "FROM (SELECT location AS at, ppm AS x FROM sensors WHERE ppm > 3 UNION ALL SELECT 'road', speed FROM loops) u (at, y)"


def test_aggregates_of_a_union_are_those_of_each_branch_in_its_own_columns(world: World) -> None:
    plan = plan_of(
        world, f"SELECT at, AVG(y) AS mean {UNITED} WHERE y < 9 GROUP BY at HAVING COUNT(*) > 2 ORDER BY mean LIMIT 3"
    )
    assert isinstance(plan, UnionAggregatePlan)
    one, other = (expect(AggregatePlan, branch) for branch in plan.branches)
    assert [[show(key) for key in each.keys] for each in (one, other)] == [["location"], ["'road'"]]
    assert [show(e.stream_predicate) for e in (one, other)] == ["(ppm > 3.0) AND (ppm < 9.0)", "speed < 9.0"]  # type: ignore[arg-type]
    assert one.having is None and one.sorted is None and plan.top.having is not None and plan.top.sorted is not None
    assert set(one.clocks) == set(other.clocks) and len(one.clocks) == 2


@pytest.mark.parametrize(
    "asked", ["LAST(y)", "AVG(y, 5 MINUTES)", "TWA(y)", "APPROX_DISTINCT(at, 5)", "similar(MAX(y), 1.0)"]
)
def test_other_aggregates_of_a_union_run_as_spark_sql_or_are_refused(world: World, asked: str) -> None:
    try:
        plan = plan_of(world, f"SELECT {asked} AS found {UNITED} BEGIN (NOW - 1 HOUR) END (NOW)")
    except PenstockError as failure:
        assert failure.line is not None
    else:
        assert isinstance(plan, SparkPlan)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "SELECT a.ppm FROM sensors a FULL JOIN loops b ON TRUE WINDOW(a,b) = '1m' WHERE a.ppm > 1",
            "WHERE beside a FULL JOIN",
        ),
        ("SELECT COUNT(*) FROM sensors a FULL JOIN loops b ON TRUE WINDOW(a,b) = '1m'", "a FULL JOIN within a window"),
        ("SELECT a.ppm FROM sensors a FULL JOIN loops b ON TRUE WINDOW(a,b) = '1m' ORDER BY 1", "ORDER BY"),
        ("SELECT COUNT(*) FROM sensors UNION ALL SELECT COUNT(*) FROM loops", "in SELECT 1 of UNION ALL, "),
        ("SELECT ppm FROM sensors UNION ALL SELECT speed FROM loops LIMIT 3", "UNION ALL with LIMIT"),
        ("SELECT ppm FROM sensors UNION ALL (SELECT speed FROM loops UNION SELECT 1.0)", "UNION beside UNION ALL"),
    ],
)
def test_the_rest_runs_as_spark_sql_and_says_why(world: World, sql: str, reason: str) -> None:
    plan = plan_of(world, sql)
    assert isinstance(plan, SparkPlan) and plan.operator == SparkPlan.operator
    assert reason in plan.reason and "Spark SQL" in plan.reason


@pytest.mark.parametrize(
    ("sql", "condition", "caret"),
    [
        ("SELECT 1 FROM loops a, loops b WINDOW PATH(a, b) = 1 SECOND BOTH WAYS", "invalid_window", "WINDOW"),
        ("SELECT 1 FROM loops a DWINDOW PATH(a) = 1 SECOND", "syntax_error", "DWINDOW"),
        ("SELECT 1 FROM loops a, loops b DWINDOW PATH(a, b) = -1 SECOND", "invalid_window", "DWINDOW"),
        (
            "SELECT 1 FROM loops a, loops b DWINDOW PATH(a, x) = 1 SECOND",
            "table_not_found",
            "DWINDOW PATH(a, x) = 1 SECOND",
        ),
        (
            "SELECT 1 FROM loops a, loops b DWINDOW PATH(a, b, a) = 1 SECOND BOTH WAYS",
            "not_supported",
            "DWINDOW PATH(a, b, a) = 1 SECOND BOTH WAYS",
        ),
        (
            "SELECT 1 FROM loops a, loops b DWINDOW PATH(a, b) = 9 SECONDS BOTH WAYS AND WINDOW(a, b) BETWEEN 1 SECOND AND 2 SECONDS",
            "invalid_window",
            "DWINDOW PATH(a, b) = 9 SECONDS BOTH WAYS",
        ),
        (
            "SELECT 1 FROM loops a LEFT JOIN loops b ON TRUE DWINDOW PATH(a, b) = 9 SECONDS BOTH WAYS",
            "not_supported",
            "DWINDOW PATH(a, b) = 9 SECONDS BOTH WAYS",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_clause(world: World, sql: str, condition: str, caret: str) -> None:
    failure = refused(world, sql)
    assert (failure.condition, under_caret(failure, sql)) == (condition, caret)
    assert failure.hint or condition != "not_supported"
