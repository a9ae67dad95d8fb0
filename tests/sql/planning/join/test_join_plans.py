"""Window joins of standing queries: what runs where, by which hint, and what others need of a plan."""

from __future__ import annotations

import pytest

from penstock.catalog.model import plan_text
from penstock.expr.windows import Bound, TimeWindow
from penstock.sql.join_hints import algorithms
from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import reads_of
from penstock.sql.statements import AlterQuery
from penstock.sql.window_clauses import retargeted
from tests.sql.world import World
from tests.support.join_plans import SILENCE, S, planned, refused, under_caret


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT similar(COUNT(*)::DOUBLE, 1.0) FROM sensors a, loops b WINDOW = '1m'", "user functions"),
        ("SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' GROUP BY CUBE (a.ppm)", "grouping sets"),
        ("SELECT DISTINCT ON (a.ppm) a.ppm FROM sensors a, loops b WINDOW = '1m'", "DISTINCT"),
        ("SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' ORDER BY 1", "ORDER BY"),
        ("SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' LIMIT 1", "LIMIT"),
        ("SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' BEGIN (LAST 3 ROWS)", "the newest rows"),
        (
            "SELECT a.ppm FROM sensors a LEFT JOIN loops b ON TRUE, my_segments m WINDOW(a,b) = '1m'",
            '"my_segments", which has no stream, beside an outer join',
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE a.ppm > (SELECT MAX(ppm) FROM sensors)",
            "a subquery",
        ),
        ("SELECT x.ppm FROM (SELECT a.ppm FROM sensors a, loops b WINDOW = '1m') x", "a subquery"),
        ("SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE a.ts > NOW()", "NOW()"),
        ("SELECT a.ppm FROM sensors a WHERE EXISTS (SELECT 1 FROM loops b WINDOW(a,b) = '1m')", "EXISTS"),
        ("SELECT a.ppm FROM sensors a LEFT JOIN loops b ON TRUE WINDOW(a,b) = '1m' WHERE b.speed > 1", "LEFT JOIN"),
        (
            "SELECT similar(a.ppm, b.speed) AS s FROM sensors a LEFT JOIN loops b ON TRUE WINDOW(a,b) = '1m'",
            "a function in the SELECT list of LEFT JOIN",
        ),
        (
            "SELECT similar(a.ppm, 1.0) AS s FROM sensors a WHERE NOT EXISTS (SELECT 1 FROM loops b WINDOW(a,b) = '1m')",
            "a function in the SELECT list of LEFT JOIN, FULL JOIN or NOT EXISTS",
        ),
        ("SELECT a.ppm FROM sensors a, loops b", "a join"),
        (
            "SELECT s1.ppm FROM " + ", ".join(f"sensors s{i}" for i in range(9)) + " WINDOW = '1m'",
            "more than 8 streams",
        ),
    ],
)
def test_what_the_join_step_does_not_do_runs_as_spark_sql_and_says_why(world: World, sql: str, reason: str) -> None:
    plan = planned(world, sql)
    assert isinstance(plan, SparkPlan)
    assert reason in plan.reason and "Spark SQL" in plan.reason


def test_a_select_asked_once_runs_as_spark_sql(world: World) -> None:
    sql = "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m'"
    assert isinstance(planned(world, sql, standing=False), SparkPlan)


def test_reading_a_window_join_writes_it_out(world: World) -> None:
    from dataclasses import replace

    sql = "SELECT a.ppm, ts FROM sensors a, loops b WINDOW = '1m'"
    world.run(f"CREATE QUERY near AS {sql}")
    world.queries["near"] = replace(world.queries["near"], stored_plan=plan_text(plan_to_json(world.join(sql))))
    plan = world.spark("SELECT ppm FROM near WHERE ts > '2026-01-01'")
    assert plan.inlined == ("near",)
    assert reads_of(plan, world)[:2] == (("loops", "sensors"), ("near",))


@pytest.mark.parametrize("algorithm", algorithms())
def test_a_hint_names_the_algorithm(world: World, algorithm: str) -> None:
    sql = f"SELECT /*+ JOIN({algorithm.upper()}) */ a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE a.ppm = b.speed"
    assert world.join(sql).algorithm == algorithm
    assert "/*+" not in world.spark(sql).sql


@pytest.mark.parametrize(
    ("hint", "rest", "caret", "advice"),
    [
        (
            "JOIN(hsh)",
            "a.ppm FROM sensors a, loops b WINDOW = '1m'",
            "hsh",
            'did you mean "hash"? there are sorted_runs',
        ),
        (
            "JOIN(quickly)",
            "a.ppm FROM sensors a, loops b WINDOW = '1m'",
            "quickly",
            "there are sorted_runs, scan, per_side, nested",
        ),
        ("BROADCAST(a)", "a.ppm FROM sensors a", "/*+ BROADCAST(a) */", "write /*+ JOIN(algorithm) */"),
        (
            "JOIN(hash)",
            "a.ppm FROM sensors a, loops b WINDOW = '1m'",
            "hash",
            "hash needs an equality between all streams",
        ),
        (
            "JOIN(forward_hash)",
            "a.ppm FROM sensors a, loops b WINDOW = '1m'",
            "forward_hash",
            "forward_hash needs an equality",
        ),
        (
            "JOIN(forward)",
            "a.ppm FROM sensors a, loops b, loops c WINDOW(a,b) = '1m' AND WINDOW(b,c) = '1m'",
            "forward",
            "these windows are a path",
        ),
        ("JOIN(hash)", "a.ppm FROM sensors a", "hash", "there is no join"),
        (
            "JOIN(gca)",
            "COUNT(*) FROM sensors a, loops b WINDOW = '1m' BEGIN (LAST 5 ROWS)",
            "gca",
            "an aggregate runs as Spark SQL, and a join of the newest rows runs as Spark SQL",
        ),
    ],
)
def test_a_hint_that_cannot_be_followed_is_an_error(
    world: World, hint: str, rest: str, caret: str, advice: str
) -> None:
    sql = f"SELECT /*+ {hint} */ {rest}"
    failure = refused(world, sql)
    assert under_caret(failure, sql) == caret
    assert advice in (failure.hint or "")


def test_a_hint_stands_behind_the_first_select(world: World) -> None:
    sql = "SELECT x.ppm FROM (SELECT /*+ JOIN(hash) */ a.ppm FROM sensors a, loops b WINDOW = '1m') x"
    assert "behind the first SELECT" in (refused(world, sql).hint or "")


def test_hints_elsewhere_are_comments(world: World) -> None:
    world.run("INSERT /*+ append */ INTO my_segments VALUES (1 /*+ one */, 'x')")


@pytest.mark.parametrize(
    "sql",
    [
        SILENCE,
        "SELECT /*+ JOIN(lca) */ a.ppm FROM sensors a, loops b, loops c WINDOW(a,b) = '1m' AND WINDOW(b,c) = '2m' "
        "WHERE similar(a.ppm, b.speed) BEGIN (NOW - 1 DAY) END (NOW)",
        "SELECT a.ppm, b.speed FROM sensors a LEFT JOIN loops b ON a.ppm = b.speed WINDOW(a,b) = '1m'",
    ],
)
def test_a_join_plan_survives_the_journal(world: World, sql: str) -> None:
    plan = world.join(sql)
    assert plan_from_json(plan_to_json(plan)) == plan


def test_a_join_plan_tells_what_it_reads(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, loops b, loops c WINDOW = '1m' WHERE similar(a.ppm, b.speed) AND b.speed = c.speed"
    )
    assert plan.functions == ("similar",)
    assert reads_of(plan, world) == (("loops", "sensors"), (), ("similar",))


def test_a_join_gets_another_window_over_time(world: World) -> None:
    (statement,) = parse_script("ALTER QUERY q SET BEGIN (NOW - 1 HOUR)")
    assert isinstance(statement, AlterQuery)
    hour = TimeWindow(Bound("now", -3600 * S), Bound("now"))
    for sql in (SILENCE, "SELECT /*+ JOIN(gca) */ a.ppm FROM sensors a, loops b WHERE a.ppm > 1 WINDOW = '1m'"):
        before, after = world.join(sql), world.join(retargeted(sql, statement).text)
        assert {each.window for each in after.inputs} == {hour}
        assert (after.bounds, after.algorithm) == (before.bounds, before.algorithm)
