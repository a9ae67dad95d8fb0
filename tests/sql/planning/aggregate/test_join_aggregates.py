"""Which aggregates over a window join are slices of its results, and why others stay Spark SQL."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.explain.notation import show
from penstock.sql.explain.plan import explain
from penstock.sql.plan import (
    JoinAggregatePlan,
    QueryAggregatePlan,
    SparkPlan,
    evaluated_by_spark,
)
from penstock.sql.plan.output import Sorted, Sorting
from penstock.sql.planning.planner import reads_of
from tests.sql.planning.join.test_join_extraction import define
from tests.sql.world import World
from tests.support.join_plans import stored

PAIRS = "FROM sensors a, loops b WINDOW = '1m' WHERE a.sensor_id = b.loop_id"


def sliced(world: World, sql: str) -> JoinAggregatePlan:
    plan = stored(world, sql)
    assert isinstance(plan, JoinAggregatePlan), plan
    assert plan.kernel is plan.window_join is plan.join
    return plan


def test_keys_and_arguments_name_columns_of_either_side(world: World) -> None:
    plan = sliced(
        world,
        f"SELECT a.location, COUNT(*) AS n, AVG(b.speed + a.ppm), MAX(ts) - MIN(ts_min) {PAIRS} AND a.ppm > 3"
        " GROUP BY a.location, b.length / 2 HAVING MAX(b.length) > 2 BEGIN (NOW - 1 HOUR) END (NOW)",
    )
    assert [show(key) for key in plan.top.keys] == ["a.location", "b.length / 2"]
    assert [call.function for call in plan.top.aggregates] == ["count", "avg", "max", "min", "max"]
    assert show(plan.top.aggregates[2].arguments[0]) == "greatest(a.ts, b.ts)"
    assert {o.name for o in plan.join.outputs} == {"a.location", "b.speed", "a.ppm", "a.ts", "b.ts", "b.length"}
    assert [o.name for o in plan.outputs][:2] == ["location", "n"] and plan.top.having is not None
    assert str(plan.join.windows) == "BEGIN (NOW - 1h) END (NOW)"
    assert reads_of(plan, world) == (("loops", "sensors"), (), ())


def test_panes_are_of_the_latest_time(world: World) -> None:
    plan = sliced(
        world, f"SELECT window_start, a.location, SUM(b.speed) {PAIRS} GROUP BY a.location, SLIDE(3 MINUTES, 1 MINUTE)"
    )
    assert plan.top.panes is not None and (plan.top.panes.width, plan.top.panes.step) == (180_000_000, 60_000_000)
    assert {o.name for o in plan.join.outputs} == {"a.location", "b.speed", "a.ts", "b.ts"}
    assert [show(key) for key in plan.top.keys] == ["a.location"]


def test_tables_and_functions_below_are_the_joins(world: World) -> None:
    plan = sliced(
        world,
        "SELECT m.owner, COUNT(*) FROM sensors a, loops b, my_segments m WINDOW(a,b) = '1m'"
        " WHERE a.sensor_id = b.loop_id AND m.segment = b.segment AND similar(a.ppm, b.speed) GROUP BY m.owner",
    )
    assert plan.functions == ("similar",) and len(plan.join.tables) == 1
    assert reads_of(plan, world)[0] == ("loops", "my_segments", "sensors")


def test_explain_shows_the_aggregates_and_the_join_below(world: World) -> None:
    plan = sliced(world, f"SELECT /*+ JOIN(hash) */ a.location, COUNT(*) {PAIRS} GROUP BY a.location, TUMBLE(1 MINUTE)")
    lines = explain(plan, world).splitlines()
    assert lines[0] == "slices of the results of a window join, exact"
    assert "  panes: 1m" in lines and "  groups: a.location" in lines and "  aggregates: count(*)" in lines
    assert any(line.startswith("  window join of 2 streams") for line in lines)
    assert "    algorithm: hash, as the hint asks" in lines


@pytest.mark.parametrize(
    "order",
    [
        "ORDER BY n DESC, a.location NULLS FIRST LIMIT 3 OFFSET 1",
        "ORDER BY COUNT(*) DESC, 1 NULLS FIRST LIMIT 3 OFFSET 1",
    ],
)
def test_the_first_few_groups_are_slices_too(world: World, order: str) -> None:
    plan = sliced(world, f"SELECT a.location, COUNT(*) AS n {PAIRS} GROUP BY a.location {order}")
    assert plan.top.sorted == Sorted((Sorting(1, True, True), Sorting(0, False, True)), 3, 1)
    assert "  sorted: n DESC, location, 3 rows after the first 1" in explain(plan, world).splitlines()


def test_a_reader_asks_for_the_first_few_groups(world: World) -> None:
    define(world, "pairs", f"SELECT a.location AS place, b.speed AS v {PAIRS}")
    plan = stored(world, "SELECT place, MAX(v) AS most FROM pairs GROUP BY place ORDER BY most LIMIT 2")
    assert isinstance(plan, QueryAggregatePlan) and plan.top.sorted is not None
    assert plan.top.sorted.limit == 2 and "  sorted: most, 2 rows" in explain(plan, world).splitlines()


def test_one_window_of_all_aggregates_is_that_of_the_streams(world: World) -> None:
    own = sliced(
        world, f"SELECT a.location, AVG(a.ppm, 5 MINUTES) AS x, COUNT(*, 5 MINUTES) AS n {PAIRS} GROUP BY a.location"
    )
    assert own == sliced(
        world, f"SELECT a.location, AVG(a.ppm) AS x, COUNT(*) AS n {PAIRS} GROUP BY a.location BEGIN (NOW - 5 MINUTES)"
    )


def test_aggregates_have_windows_of_their_own(world: World) -> None:
    plan = sliced(world, f"SELECT AVG(a.ppm, 5 MINUTES) AS x, COUNT(*, 1 HOUR) AS n {PAIRS}")
    assert plan.top.own_windows == (300_000_000, 3_600_000_000)
    assert str(plan.join.windows) == "BEGIN (NOW - 1h) END (NOW)"
    lines = explain(plan, world).splitlines()
    assert "  window of avg(a.ppm): the last 5m of it" in lines
    beside = sliced(world, f"SELECT AVG(a.ppm, 5 MINUTES) AS x, COUNT(*) AS n {PAIRS} BEGIN (NOW - 1 DAY) END (NOW)")
    assert beside.top.own_windows == (300_000_000, None)
    assert str(beside.join.windows) == "BEGIN (NOW - 1d) END (NOW)"
    for refused in (
        f"SELECT AVG(a.ppm, 5 MINUTES), FIRST(b.speed) {PAIRS}",
        f"SELECT AVG(a.ppm, 5 MINUTES), COUNT(*) {PAIRS} GROUP BY TUMBLE(1 MINUTE)",
    ):
        with pytest.raises(PenstockError) as caught:
            stored(world, refused)
        assert caught.value.condition == "not_supported"


def test_a_reader_has_one_window(world: World) -> None:
    define(world, "pairs", f"SELECT a.location AS place, b.speed AS v {PAIRS}")
    plan = stored(world, "SELECT AVG(v, 5 MINUTES) AS v FROM pairs")
    assert isinstance(plan, QueryAggregatePlan)
    assert str(plan.relations[0].window) == "BEGIN (NOW - 5m) END (NOW)"
    with pytest.raises(PenstockError) as caught:
        stored(world, "SELECT AVG(v, 5 MINUTES), COUNT(*, 1 HOUR) FROM pairs")
    assert caught.value.hint is not None and "with several windows run as Spark SQL" in caught.value.hint


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            f"SELECT DISTINCT ON (a.location) a.location, COUNT(*) {PAIRS} GROUP BY a.location",
            "DISTINCT ON over aggregates runs as Spark SQL",
        ),
        (
            f"SELECT DISTINCT COUNT(*) {PAIRS} GROUP BY a.location ORDER BY MAX(b.speed)",
            "DISTINCT in an order by something that is not in the SELECT list runs as Spark SQL",
        ),
        (f"SELECT a.location, COUNT(*) {PAIRS} GROUP BY ROLLUP (a.location)", "grouping sets run as Spark SQL"),
        (f"SELECT FIRST(a.ppm) {PAIRS}", "FIRST over a join runs as Spark SQL"),
        (f"SELECT AVG(similar(a.ppm, b.speed)::INT) {PAIRS}", "aggregates with user functions run as Spark SQL"),
        (
            f"SELECT COUNT(*) {PAIRS} AND b.ts < NOW() - '3s'::INTERVAL",
            "a condition that the join cannot decide runs as Spark SQL",
        ),
        (
            "SELECT COUNT(b.speed) FROM sensors a LEFT JOIN loops b ON a.sensor_id = b.loop_id WINDOW(a,b) = '1m'",
            "aggregates over rows without a partner run as Spark SQL",
        ),
        (
            f"SELECT COUNT(*) {PAIRS} BEGIN (NOW - 1 HOUR) END (NOW) BEGIN (NOW - 1 MINUTE) END (NOW) FOR a",
            "aggregates over streams with windows of their own run as Spark SQL",
        ),
        (
            f"SELECT t.x, COUNT(*) FROM (SELECT a.location AS x {PAIRS}) t GROUP BY t.x",
            "aggregates of more than the join's own rows run as Spark SQL",
        ),
    ],
)
def test_what_slices_do_not_cover_runs_as_spark_sql_and_says_why(world: World, sql: str, reason: str) -> None:
    plan = stored(world, sql)
    assert isinstance(plan, SparkPlan) and plan.core is not None
    assert plan.reason == f"the join is incremental; on top of it, {reason}"


def test_a_reader_of_such_a_query_writes_it_out(world: World) -> None:
    world.run(f"CREATE QUERY counted AS SELECT a.location, COUNT(*) AS n {PAIRS} GROUP BY a.location")
    plan = stored(world, "SELECT MAX(n) FROM counted")
    assert isinstance(plan, SparkPlan) and plan.core is not None and plan.inlined == ("counted",)


def test_a_reader_of_a_join_is_slices_of_its_results_in_its_names(world: World) -> None:
    define(world, "pairs", f"SELECT a.location AS place, b.speed * 2 AS v {PAIRS} AND a.ppm > 3")
    plan = stored(
        world,
        "SELECT place, window_start, SUM(v), MAX(ts) - MIN(ts_min) FROM pairs WHERE v > 1 GROUP BY place, TUMBLE(1 MINUTE)"
        " HAVING COUNT(*) > 2 BEGIN (NOW - 1 HOUR) END (NOW)",
    )
    assert isinstance(plan, QueryAggregatePlan) and not evaluated_by_spark(plan)
    assert [show(key) for key in plan.top.keys] == ["a.location"] and plan.top.panes is not None
    assert [show(a) for call in plan.top.aggregates[:2] for a in call.arguments] == [
        "b.speed * 2.0",
        "greatest(a.ts, b.ts)",
    ]
    assert plan.top.stream_predicate is not None and "(b.speed * 2.0) > 1.0" in show(plan.top.stream_predicate)
    assert reads_of(plan, world) == ((), ("pairs",), ()) and plan.kernel is None
    lines = explain(plan, world).splitlines()
    assert lines[0].startswith('slices of the results of query "pairs", a join, exact')
    assert "  window: BEGIN (NOW - 1h) END (NOW)" in lines and any("conditions: " in line for line in lines)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "SELECT COUNT(*) FROM pairs GROUP BY place ORDER BY FIRST(v)",
            "FIRST over a join runs as Spark SQL",
        ),
        ("SELECT LAST(v) FROM pairs", "LAST over a join runs as Spark SQL"),
        ("SELECT SUM(s::INT) FROM pairs", "aggregates of what another query's functions computed run as Spark SQL"),
        ("SELECT COUNT(*) FROM pairs p, my_segments m WHERE m.owner = p.place", "reading another query"),
    ],
)
def test_what_slices_do_not_cover_of_a_reader_runs_as_spark_sql(world: World, sql: str, reason: str) -> None:
    define(world, "pairs", f"SELECT a.location AS place, b.speed AS v, similar(a.ppm, b.speed) AS s {PAIRS}")
    plan = stored(world, sql)
    assert type(plan) is SparkPlan and evaluated_by_spark(plan)
    assert reason in plan.reason


def test_an_order_by_what_is_not_shown_is_part_of_the_slices(world: World) -> None:
    define(world, "pairs", f"SELECT a.location AS place, b.speed AS v {PAIRS}")
    top = "GROUP BY {} ORDER BY MAX({}) - 1 DESC LIMIT 3"
    plan = stored(world, f"SELECT COUNT(*) {PAIRS} {top.format('a.location', 'b.speed')}")
    assert isinstance(plan, JoinAggregatePlan)
    assert "  sorted: max(b.speed) - 1.0 DESC, 3 rows" in explain(plan, world).splitlines(), explain(plan, world)
    read = stored(world, f"SELECT place FROM pairs {top.format('place', 'v')}")
    assert isinstance(read, QueryAggregatePlan) and read.top.sorted is not None
    assert [o.name for o in read.top.outputs] == ["place"] and len(read.top.sorted.hidden) == 1
