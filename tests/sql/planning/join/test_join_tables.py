"""Ordinary tables in window joins: what is looked up, what is tested, and what stays with Spark SQL."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.explain.notation import show
from penstock.sql.explain.plan import explain
from penstock.sql.parse import parse_script
from penstock.sql.plan import JoinTable, SparkPlan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import plan_query, reads_of
from penstock.sql.statements import Select
from tests.sql.world import World, plant

NEAR = "FROM sensors a, loops b, my_segments m WINDOW(a,b) = 5 SECONDS"


@pytest.fixture
def world() -> World:
    world = plant()
    world.run("CREATE TABLE owners (name TEXT PRIMARY KEY, level INT, share DOUBLE, boss TEXT)")
    return world


def _parts(table: JoinTable) -> tuple[str, str | None, list[str], list[str], str]:
    alone = None if table.predicate is None else show(table.predicate)
    keys = [f"{show(own)} = {show(value)}" for value, own in table.keys]
    return table.alias, alone, keys, [show(c) for c in table.conditions], table.use


def _reason(world: World, sql: str) -> str:
    (statement,) = parse_script(sql)
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, True, joins=True)
    assert isinstance(plan, SparkPlan)
    return plan.reason


def test_a_table_is_looked_up_by_what_a_reading_says(world: World) -> None:
    plan = world.join(
        f"SELECT a.ppm, m.owner {NEAR} WHERE a.ppm = b.speed AND m.segment = b.segment AND m.owner <> 'x'"
    )
    assert [i.alias for i in plan.inputs] == ["a", "b"]
    assert [_parts(t) for t in plan.tables] == [("m", "owner <> 'x'", ["segment = b.segment"], [], "inner")]
    assert plan.conditions == ()
    assert [show(o.expr) for o in plan.outputs] == ["a.ppm", "m.owner"]


def test_on_and_using_count_like_where(world: World) -> None:
    where = world.join(f"SELECT m.owner {NEAR} WHERE b.segment = m.segment")
    assert where == world.join(
        "SELECT m.owner FROM sensors a, loops b JOIN my_segments m ON b.segment = m.segment WINDOW(a,b) = 5 SECONDS"
    )
    assert where == world.join(
        "SELECT m.owner FROM sensors a, loops b JOIN my_segments m USING (segment) WINDOW(a,b) = 5 SECONDS"
    )


def test_tables_come_in_an_order_in_which_they_can_be_looked_up(world: World) -> None:
    plan = world.join(
        "SELECT o.level FROM sensors a, loops b, owners o, my_segments m WINDOW(a,b) = '5s' "
        "WHERE o.name = m.owner AND m.segment = b.segment AND o.share * a.ppm > b.speed"
    )
    assert [_parts(t) for t in plan.tables] == [
        ("m", None, ["segment = b.segment"], [], "inner"),
        ("o", None, ["name = m.owner"], ["(o.share * a.ppm) > b.speed"], "inner"),
    ]


def test_a_table_that_nothing_is_equal_to_is_compared_row_by_row(world: World) -> None:
    plan = world.join("SELECT o.name FROM sensors a, loops b, owners o WINDOW(a,b) = '5s' WHERE o.share < a.ppm")
    assert [_parts(t) for t in plan.tables] == [("o", None, [], ["o.share < a.ppm"], "inner")]


def test_streams_that_are_equal_to_one_column_are_equal_to_each_other(world: World) -> None:
    plan = world.join(f"SELECT m.owner {NEAR} WHERE a.sensor_id = m.segment AND m.segment = b.segment")
    assert [[show(k) for k in i.keys] for i in plan.inputs] == [["sensor_id"], ["segment"]]
    assert _parts(plan.tables[0])[2] == ["segment = a.sensor_id", "segment = b.segment"]


def test_functions_see_only_rows_that_a_combination_reaches(world: World) -> None:
    plan = world.join(
        "SELECT o.name FROM sensors a, loops b, owners o WINDOW(a,b) = '5s' "
        "WHERE similar(o.share, 1.0) AND similar(o.share, a.ppm) AND o.level = b.segment"
    )
    conditions = ["similar(o.share, 1.0)", "similar(o.share, a.ppm)"]
    assert [_parts(t) for t in plan.tables] == [("o", None, ["level = b.segment"], conditions, "inner")]
    assert plan.functions == ("similar",)


@pytest.mark.parametrize(
    "asked",
    [
        "b.segment IN (SELECT m.segment FROM my_segments m WHERE m.owner = 'x')",
        "EXISTS (SELECT 1 FROM my_segments m WHERE m.owner = 'x' AND b.segment = m.segment)",
    ],
)
def test_in_and_exists_ask_for_one_row(world: World, asked: str) -> None:
    plan = world.join(f"SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) = '5s' WHERE {asked}")
    assert [_parts(t) for t in plan.tables] == [("m", "owner = 'x'", ["segment = b.segment"], [], "exists")]


def test_not_exists_asks_for_no_row_and_left_join_takes_none_for_an_answer(world: World) -> None:
    missing = world.join(
        "SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) = '5s' WHERE "
        "NOT EXISTS (SELECT 1 FROM my_segments m WHERE m.owner = 'x' AND b.segment = m.segment)"
    )
    assert [_parts(t) for t in missing.tables] == [("m", "owner = 'x'", ["segment = b.segment"], [], "missing")]
    left = world.join(
        "SELECT a.ppm, m.owner FROM sensors a, loops b LEFT JOIN my_segments m ON m.segment = b.segment AND m.owner = 'x' "
        "AND a.ppm > 3 WINDOW(a,b) = '5s' WHERE a.ppm > 1"
    )
    assert [_parts(t) for t in left.tables] == [("m", "owner = 'x'", ["segment = b.segment"], ["a.ppm > 3.0"], "left")]
    assert [show(i.stream_predicate) for i in left.inputs if i.stream_predicate is not None] == ["ppm > 1.0"]


def test_not_in_is_looked_up_where_nothing_can_be_unknown_and_else_tested(world: World) -> None:
    asks = "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE {} NOT IN (SELECT segment FROM my_segments WHERE owner > 'x')"
    (looked_up,) = world.join(asks.format("b.loop_id")).tables
    assert (looked_up.use, len(looked_up.keys), looked_up.conditions) == ("missing", 1, ())
    assert looked_up.predicate is not None and show(looked_up.predicate) == "owner > 'x'"
    (tested,) = world.join(asks.format("b.segment")).tables
    assert (tested.use, tested.keys) == ("missing", ())
    assert [show(c) for c in tested.conditions] == ["(b.segment = my_segments.segment) OR b.segment IS NULL"]


def test_in_compares_numbers_of_different_types(world: World) -> None:
    plan = world.join(
        "SELECT a.id FROM odd a, loops b WINDOW(a,b) = '5s' WHERE a.id IN (SELECT segment FROM my_segments)"
    )
    assert _parts(plan.tables[0])[2] == ["CAST(segment AS BIGINT) = a.id"]


def test_a_plan_with_tables_reads_back_and_names_what_it_depends_on(world: World) -> None:
    plan = world.join(f"SELECT m.owner {NEAR} WHERE b.segment = m.segment AND similar(a.ppm, b.speed)")
    assert plan_from_json(plan_to_json(plan)) == plan
    assert reads_of(plan, world) == (("loops", "my_segments", "sensors"), (), ("similar",))
    older = plan_to_json(world.join("SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) = '5s'"))
    del older["tables"]
    assert plan_to_json(plan_from_json(older))["tables"] == []


def test_explain_says_how_a_table_is_joined(world: World) -> None:
    plan = world.join(f"SELECT m.owner {NEAR} WHERE b.segment = m.segment AND m.owner > 'm' AND m.owner <> a.location")
    assert explain(plan, world).splitlines()[-6:-2] == [
        '  m: table "my_segments", as it is at the last reading',
        "    rows: owner > 'm'",
        "    looked up by: segment = b.segment",
        "    conditions: m.owner <> a.location",
    ]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "SELECT a.ppm FROM sensors a LEFT JOIN loops b ON TRUE, my_segments m WINDOW(a,b) = '1m'",
            '"my_segments", which has no stream, beside an outer join of streams runs as Spark SQL',
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b LEFT JOIN my_segments m ON m.segment = b.segment WINDOW = '1m' "
            "WHERE m.owner IS NULL",
            "a condition of WHERE on the right side of a LEFT JOIN",
        ),
        (
            "SELECT a.ppm FROM sensors a WHERE NOT EXISTS "
            "(SELECT 1 FROM loops b, my_segments m WHERE m.segment = b.segment WINDOW(a,b) = '1m')",
            'EXISTS with "my_segments", which has no stream, runs as Spark SQL',
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE b.segment NOT IN (SELECT segment FROM loops)",
            "unless it reads one table without a stream",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE b.segment IN (SELECT segment FROM loops)",
            "unless it reads one table without a stream",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE EXISTS (SELECT 1 FROM my_segments a)",
            "two tables of the same name",
        ),
    ],
)
def test_what_stays_with_spark_sql_says_why(world: World, sql: str, reason: str) -> None:
    assert reason in _reason(world, sql)


def test_a_table_without_a_stream_has_no_window(world: World) -> None:
    with pytest.raises(PenstockError) as caught:
        world.join("SELECT a.ppm FROM sensors a, loops b, my_segments m WINDOW(a,b) = '1s' AND WINDOW(b,m) = '1s'")
    assert caught.value.condition == "invalid_window"
    assert caught.value.message == '"m" has no stream, and so no times to be near'


def test_a_column_that_a_table_does_not_have_is_pointed_at(world: World) -> None:
    sql = f"SELECT m.ownr {NEAR} WHERE m.segment = b.segment"
    with pytest.raises(PenstockError) as caught:
        world.join(sql)
    failure = caught.value
    assert failure.condition == "column_not_found" and failure.column == sql.index("ownr") + 1
    assert failure.hint == 'did you mean "owner"?'
