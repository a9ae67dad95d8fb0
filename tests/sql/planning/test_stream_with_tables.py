"""One stream beside ordinary tables: what is joined in the cycle, what slices make of it, and what stays with Spark SQL."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.explain.notation import show
from penstock.sql.explain.plan import explain
from penstock.sql.plan import (
    JoinAggregatePlan,
    JoinPlan,
    QueryAggregatePlan,
    SparkPlan,
)
from penstock.sql.planning.planner import reads_of
from tests.sql.planning.join.test_join_extraction import define
from tests.sql.world import World
from tests.support.join_plans import stored

MINE = "FROM loops s WHERE s.segment IN (SELECT segment FROM my_segments)"
OWNED = "FROM loops s JOIN my_segments m ON m.segment = s.segment"


def joined(world: World, sql: str) -> JoinPlan:
    plan = stored(world, sql)
    assert isinstance(plan, JoinPlan) and len(plan.inputs) == 1, plan
    assert plan.bounds == ((0,),) and plan.conditions == ()
    return plan


def test_a_reading_looks_the_table_up(world: World) -> None:
    plan = joined(
        world, f"SELECT s.speed, m.owner {OWNED} WHERE s.speed > 3 AND s.loop_id < 9 AND m.owner <> 'x' AND TRUE"
    )
    (stream,), (table,) = plan.inputs, plan.tables
    assert stream.stream_predicate is not None and show(stream.stream_predicate) == "speed > 3.0"
    assert stream.static_predicate is not None and show(stream.static_predicate) == "(loop_id < 9) AND TRUE"
    assert table.predicate is not None and show(table.predicate) == "owner <> 'x'"
    assert [(show(own), show(value)) for value, own in table.keys] == [("segment", "s.segment")]
    assert reads_of(plan, world) == (("loops", "my_segments"), (), ())


@pytest.mark.parametrize(
    ("sql", "use"),
    [
        (f"SELECT s.speed {MINE}", "exists"),
        (
            "SELECT s.speed FROM loops s WHERE EXISTS (SELECT 1 FROM my_segments m WHERE m.segment = s.segment)",
            "exists",
        ),
        (
            "SELECT s.speed FROM loops s WHERE NOT EXISTS (SELECT 1 FROM my_segments m WHERE m.segment = s.segment)",
            "missing",
        ),
        ("SELECT s.speed FROM loops s WHERE s.segment NOT IN (SELECT segment FROM my_segments)", "missing"),
        ("SELECT s.speed, m.owner FROM my_segments m, loops s WHERE m.segment = s.segment", "inner"),
        ("SELECT s.speed, m.owner FROM loops s LEFT JOIN my_segments m USING (segment)", "left"),
    ],
)
def test_every_way_to_name_a_table_runs_in_the_cycle(world: World, sql: str, use: str) -> None:
    plan = joined(world, sql)
    assert [table.use for table in plan.tables] == [use]
    assert str(plan.windows) == "BEGIN (START) END (NOW)"


def test_functions_run_in_the_step(world: World) -> None:
    plan = joined(
        world, "SELECT s.speed, similar(s.speed, 1.0) AS x FROM loops s, my_segments m WHERE similar(s.ppm, 2.0)"
    )
    assert plan.functions == ("similar",)


def test_one_average_over_its_own_window_is_slices_of_the_last_minutes(world: World) -> None:
    plan = stored(world, f"SELECT AVG(s.speed, 5 MINUTES) AS mean {MINE}")
    assert isinstance(plan, JoinAggregatePlan)
    assert str(plan.join.windows) == "BEGIN (NOW - 5m) END (NOW)"
    assert plan.top.own_windows == () and [call.function for call in plan.top.aggregates] == ["avg"]
    assert plan.outputs[0].name == "mean"


def test_aggregates_with_everything_around_them_are_slices(world: World) -> None:
    plan = stored(
        world,
        f"SELECT m.owner, window_start, COUNT(*) AS n, MAX(s.speed) {OWNED} WHERE s.speed > 3 GROUP BY m.owner, TUMBLE(1 MINUTE)"
        " HAVING AVG(s.speed) > 50 BEGIN (NOW - 1 HOUR) END (NOW)",
    )
    assert isinstance(plan, JoinAggregatePlan) and plan.top.panes is not None and plan.top.having is not None
    assert [show(key) for key in plan.top.keys] == ["m.owner"]
    assert {o.name for o in plan.join.outputs} == {"m.owner", "s.speed", "s.ts"}
    alone = stored(world, f"SELECT SUM(s.speed) {OWNED} BEGIN (NOW - 1 HOUR) END (NOW) FOR s")
    assert isinstance(alone, JoinAggregatePlan) and str(alone.join.windows) == "BEGIN (NOW - 1h) END (NOW)"


def test_explain_says_how_the_table_is_asked(world: World) -> None:
    plan = stored(world, f"SELECT AVG(s.speed, 5 MINUTES) AS mean {MINE}")
    assert explain(plan, world).splitlines() == [
        "slices of the results of a stream joined with tables, exact",
        "  groups: one",
        "  aggregates: avg(s.speed)",
        "  output: mean DOUBLE = avg(s.speed)",
        "  one stream joined with tables, in the cycle beside the shared pass",
        '    s: stream of "loops"',
        "      window: BEGIN (NOW - 5m) END (NOW)",
        "      initial scan: every sensor",
        "      stream predicate: none",
        '    my_segments: table "my_segments", one row is enough, as it is when the reading is logged',
        "      looked up by: segment = s.segment",
        "    output: s.speed DOUBLE",
    ]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"SELECT s.speed {MINE} ORDER BY 1", "ORDER BY runs as Spark SQL"),
        (
            "SELECT FIRST(s.speed) FROM loops s JOIN my_segments m ON m.segment < s.segment",
            "FIRST over a join runs as Spark SQL",
        ),
        (
            f"SELECT DISTINCT MAX(s.speed) {OWNED} GROUP BY m.owner ORDER BY MIN(s.speed) LIMIT 3",
            "DISTINCT in an order by something that is not in the SELECT list runs as Spark SQL",
        ),
        (f"SELECT MAX(s.speed) {MINE} BEGIN (LAST 3 ROWS)", "a join of the newest rows runs as Spark SQL"),
        (
            "SELECT s.speed FROM loops s WHERE s.speed > 3 OR s.segment IN (SELECT segment FROM my_segments)",
            "unless it is IN or EXISTS over a table and AND connects it",
        ),
        (
            f"SELECT AVG(s.speed) {MINE} AND s.ts < NOW() - '3s'::INTERVAL",
            "NOW() in an expression runs as Spark SQL",
        ),
        (
            "SELECT s.speed FROM loops s WHERE s.loop_id IN (SELECT sensor_id FROM sensors)",
            "a subquery runs as Spark SQL",
        ),
        ("SELECT s.segment FROM loops s WHERE s.segment IN (SELECT segment FROM my_segments)", "a subquery runs as"),
        ("SELECT a.ppm, b.speed FROM sensors a, loops b, my_segments m", "a join runs as Spark SQL"),
    ],
)
def test_what_stays_with_spark_sql_reads_the_log_and_says_why(world: World, sql: str, reason: str) -> None:
    plan = stored(world, sql)
    assert isinstance(plan, SparkPlan) and plan.core is None and plan.window_join is None
    assert reason in plan.reason


@pytest.mark.parametrize(
    "beside",
    [
        MINE,
        OWNED,
        "FROM loops s LEFT JOIN my_segments m ON m.segment = s.segment AND m.owner <> 'x'",
        "FROM loops s WHERE NOT EXISTS (SELECT 1 FROM my_segments m WHERE m.segment < s.segment)",
    ],
)
def test_where_a_reading_meets_one_row_there_is_a_first_and_a_last(world: World, beside: str) -> None:
    plan = stored(world, f"SELECT FIRST(s.speed) AS a, LAST(s.speed) AS b {beside} BEGIN (NOW - 1 HOUR) END (NOW)")
    assert isinstance(plan, JoinAggregatePlan) and [c.function for c in plan.top.aggregates] == ["first", "last"]


def test_windows_may_differ(world: World) -> None:
    plan = stored(world, f"SELECT AVG(s.speed, 5 MINUTES), AVG(s.speed, 1 HOUR) {MINE}")
    assert isinstance(plan, JoinAggregatePlan) and plan.top.own_windows == (300_000_000, 3_600_000_000)
    assert str(plan.join.windows) == "BEGIN (NOW - 1h) END (NOW)"
    with pytest.raises(PenstockError) as caught:
        stored(world, f"SELECT AVG(s.speed, 5 MINUTES), TWA(s.speed, 1 HOUR) {MINE}")
    assert caught.value.condition == "not_supported"
    assert caught.value.hint is not None and "TWA over a join runs as Spark SQL" in caught.value.hint


def test_a_hint_has_nothing_to_choose(world: World) -> None:
    with pytest.raises(PenstockError) as caught:
        stored(world, f"SELECT /*+ JOIN(hash) */ s.speed {MINE}")
    assert caught.value.condition == "not_supported"


def test_it_can_be_read_like_a_stream_by_its_one_time(world: World) -> None:
    define(world, "mine", f"SELECT s.speed AS v {MINE}")
    plan = stored(world, "SELECT MAX(v), MAX(ts) FROM mine WHERE v > 1 BEGIN (NOW - 1 HOUR) END (NOW)")
    assert isinstance(plan, QueryAggregatePlan)
    assert [show(a) for call in plan.top.aggregates for a in call.arguments] == ["s.speed", "s.ts"]
    with pytest.raises(PenstockError) as caught:
        stored(world, "SELECT ts_min FROM mine")
    assert caught.value.condition == "column_not_found"
