"""What stands on a window join: which part of a question is the join's, and which is left to Spark SQL."""

from __future__ import annotations

import pytest

from penstock.catalog.model import QueryDefinition, plan_text
from penstock.sql.explain.notation import show
from penstock.sql.explain.plan import explain
from penstock.sql.parse import parse_script
from penstock.sql.plan import JoinPlan, SparkPlan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import plan_query, reads_of
from penstock.sql.statements import Select
from tests.sql.world import World

PAIRS = "FROM sensors a, loops b WINDOW = '1m' WHERE a.sensor_id = b.loop_id"


def planned(world: World, sql: str) -> SparkPlan:
    (statement,) = parse_script(sql)
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, standing=True, joins=True)
    assert isinstance(plan, SparkPlan)
    assert plan_from_json(plan_to_json(plan)) == plan
    return plan


def topped(world: World, sql: str) -> tuple[SparkPlan, JoinPlan]:
    plan = planned(world, sql)
    assert plan.core is not None and plan.kernel is plan.window_join is plan.core
    assert plan.reason.startswith("the join is incremental; on top of it, ")
    assert sum(r.kind == "core" for r in plan.relations) == 1 and "WINDOW" not in plan.sql
    return plan, plan.core


def names(join: JoinPlan) -> list[str]:
    return [output.name for output in join.outputs]


def test_the_join_answers_exactly_what_is_asked_on_top(world: World) -> None:
    plan, join = topped(
        world,
        f"SELECT a.location, COUNT(*), AVG(b.speed), MAX(ts) {PAIRS} AND a.ppm > 3 GROUP BY CUBE (a.location)"
        " HAVING MAX(b.length) > 2 BEGIN (NOW - 1 HOUR) END (NOW) ORDER BY 2 LIMIT 3",
    )
    assert names(join) == ["a.location", "b.speed", "a.ts", "b.ts", "b.length"]
    assert show(join.inputs[0].stream_predicate) == "ppm > 3.0"  # type: ignore[arg-type]
    assert [[show(k) for k in i.keys] for i in join.inputs] == [["sensor_id"], ["loop_id"]]
    assert {str(i.window) for i in join.inputs} == {"BEGIN (NOW - 1h) END (NOW)"}
    assert "WHERE" not in plan.sql and "GREATEST(`_core`.`a.ts`, `_core`.`b.ts`)" in plan.sql
    assert reads_of(plan, world)[0] == ("loops", "sensors")


def test_a_count_alone_needs_no_column_but_gets_one(world: World) -> None:
    _, join = topped(world, f"SELECT similar(COUNT(*)::DOUBLE, 1.0) {PAIRS}")
    assert names(join) == ["a.ts"]


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT DISTINCT similar(a.ppm, b.speed) {PAIRS}",
        f"SELECT DISTINCT ON (a.location) a.location, b.speed {PAIRS} ORDER BY a.location, b.ts DESC",
        f"SELECT a.ppm {PAIRS} ORDER BY a.ppm",
        f"SELECT a.ppm {PAIRS} LIMIT 5",
        f"SELECT a.ppm, RANK() OVER (PARTITION BY a.location ORDER BY a.ppm) {PAIRS}",
        f"SELECT window_start, similar(COUNT(*)::DOUBLE, 1.0) {PAIRS} GROUP BY TUMBLE(1 MINUTE)",
        f"SELECT t.x, COUNT(*) FROM (SELECT a.location AS x {PAIRS}) t GROUP BY t.x",
        f"WITH t AS (SELECT a.location AS x {PAIRS}) SELECT COUNT(*) FROM t",
        f"SELECT t.x FROM (SELECT a.location AS x, b.segment {PAIRS}) t, my_segments m WHERE m.segment = t.segment",
        "SELECT COUNT(*) FROM sensors a WHERE NOT EXISTS (SELECT 1 FROM loops b WHERE b.loop_id = a.sensor_id"
        " DWINDOW(a,b) = '5m')",
        "SELECT similar(a.ppm, b.speed) FROM sensors a LEFT JOIN loops b ON a.sensor_id = b.loop_id WINDOW(a,b) = '1m'",
        f"SELECT split(a.location, '^n') {PAIRS}",
    ],
)
def test_the_join_is_incremental_whatever_stands_on_top(world: World, sql: str) -> None:
    topped(world, sql)


def test_conditions_that_no_kernel_evaluates_stay_on_top(world: World) -> None:
    plan, join = topped(world, f"SELECT COUNT(*) {PAIRS} AND a.ppm > 3 AND b.ts < NOW() - '3s'::INTERVAL")
    assert show(join.inputs[0].stream_predicate) == "ppm > 3.0"  # type: ignore[arg-type]
    assert names(join) == ["b.ts"] and "WHERE `_core`.`b.ts` <" in plan.sql
    left, outer = topped(
        world,
        "SELECT COUNT(*) FROM sensors a LEFT JOIN loops b ON a.sensor_id = b.loop_id WINDOW(a,b) = '1m'"
        " WHERE b.speed IS NULL AND a.ppm > 3",
    )
    assert outer.missing == "left" and outer.inputs[0].stream_predicate is not None
    assert "WHERE `_core`.`b.speed` IS NULL" in left.sql


def test_a_table_beside_a_nested_join_is_read_as_of_the_last_reading(world: World) -> None:
    plan, _ = topped(
        world,
        f"SELECT m.owner FROM (SELECT b.segment {PAIRS}) t, my_segments m WHERE m.segment = t.segment",
    )
    assert "`_core`.`_journal`" in plan.sql and {r.kind for r in plan.relations} == {"core", "ordinary"}


def test_a_hint_holds_for_the_join_below(world: World) -> None:
    _, join = topped(world, f"SELECT /*+ JOIN(hash) */ similar(COUNT(*)::DOUBLE, 1.0) {PAIRS}")
    assert join.algorithm == "hash"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"SELECT COUNT(*) {PAIRS} AND a.ppm > (SELECT AVG(speed) FROM loops)", "a stream beside a window join"),
        (f"SELECT a.ppm {PAIRS} UNION ALL SELECT b.speed FROM loops b", "a stream beside a window join"),
        (f"SELECT a.ppm {PAIRS} UNION ALL SELECT a.ppm {PAIRS}", "more than one window join"),
        (f"SELECT COUNT(*) {PAIRS} BEGIN (LAST 5 ROWS)", "newest rows"),
        (f"SELECT m.owner FROM my_segments m WHERE m.segment IN (SELECT b.segment {PAIRS})", "inside a condition"),
    ],
)
def test_what_cannot_be_taken_apart_runs_as_spark_sql_and_says_why(world: World, sql: str, reason: str) -> None:
    plan = planned(world, sql)
    assert plan.core is None and reason in plan.reason
    assert all(r.kind != "core" for r in plan.relations)


def test_explain_shows_both_parts(world: World) -> None:
    plan, _ = topped(world, f"SELECT DISTINCT ON (a.ppm) a.ppm {PAIRS}")
    lines = explain(plan, world).splitlines()
    assert lines[0] == "Spark SQL: the join is incremental; on top of it, DISTINCT runs as Spark SQL"
    assert lines[1].startswith("  window join of 2 streams") and "  r0: rows of the join" in lines


def test_a_query_on_a_query_on_a_join_has_a_join_of_its_own(world: World) -> None:
    world.run(f"CREATE QUERY counted AS SELECT a.location, COUNT(*) AS n {PAIRS} GROUP BY a.location")
    plan, _ = topped(world, "SELECT MAX(n) FROM counted")
    assert plan.inlined == ("counted",)


def test_a_reader_of_a_join_names_its_columns_and_its_times(world: World) -> None:
    define(world, "pairs", f"SELECT a.location, b.speed AS v {PAIRS}")
    plan = planned(world, "SELECT * FROM pairs p WHERE p.v > 3 AND p.ts_min < p.ts BEGIN (NOW - 1 HOUR) END (NOW)")
    assert [name for name, _ in plan.outputs] == ["location", "v", "ts_min", "ts"]
    assert [(r.kind, r.table, str(r.window)) for r in plan.relations] == [
        ("query", "pairs", "BEGIN (NOW - 1h) END (NOW)")
    ]
    assert plan.core is None and not plan.inlined and reads_of(plan, world)[1] == ("pairs",)


def test_a_join_that_is_asked_about_once_is_written_out(world: World) -> None:
    define(world, "pairs", f"SELECT a.location, b.speed AS v {PAIRS}")
    (statement,) = parse_script("SELECT COUNT(*) FROM pairs")
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, standing=False, joins=True)
    assert isinstance(plan, SparkPlan) and plan.inlined == ("pairs",)


def define(world: World, name: str, sql: str) -> None:
    """A standing query whose join runs in the cycle."""
    (statement,) = parse_script(sql)
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, standing=True, joins=True)
    world.queries[name] = QueryDefinition(1, name, sql, plan_text(plan_to_json(plan)), *reads_of(plan, world), None)
