from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.expr.windows import EVERYTHING, FROM_REGISTRATION
from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import invocation_of, plan_query, reads_of
from penstock.sql.statements import Select
from tests.sql.world import SYSTEM, World


def _outputs(world: World, items: str, table: str = "sensors") -> list[tuple[str, str]]:
    plan = world.plan(f"SELECT {items} FROM {table}")
    if isinstance(plan, SparkPlan):
        return [(name, str(type_)) for name, type_ in plan.outputs]
    return [(output.name, str(output.type)) for output in plan.outputs]


@pytest.mark.parametrize(
    ("items", "outputs"),
    [
        ("s.reading.ppm, reading.ppm, ppm", [("ppm", "DOUBLE"), ("ppm_2", "DOUBLE"), ("ppm_3", "DOUBLE")]),
        ('PPM, "ppm" AS "PPM"', [("ppm", "DOUBLE"), ("PPM", "DOUBLE")]),
        ("ppm AS a_2, lat AS a, lon AS a", [("a_2", "DOUBLE"), ("a", "DOUBLE"), ("a_3", "DOUBLE")]),
        ("gas_id + 1", [("gas_id + 1", "INT")]),
        ("gas_id + 3000000000", [("gas_id + 3000000000", "BIGINT")]),
        ("gas_id + 1.5", [("gas_id + 1.5", "DOUBLE")]),
        ("gas_id / 2", [("gas_id / 2", "INT")]),
        ("ts - ts", [("ts - ts", "BIGINT")]),
        ("NULL, ppm", [("NULL", "TEXT"), ("ppm", "DOUBLE")]),
        ("max(ppm), count(*), sum(gas_id)", [("max", "DOUBLE"), ("count", "BIGINT"), ("sum", "BIGINT")]),
        ("count(DISTINCT gas_id), avg(gas_id)", [("count", "BIGINT"), ("avg", "DOUBLE")]),
        ("CAST(ppm AS INT), ppm::text", [("ppm", "INT"), ("ppm_2", "TEXT")]),
        ("coalesce(gas_id, 2.5), greatest(1, 2)", [("coalesce", "DOUBLE"), ("greatest", "INT")]),
        ("rank() OVER (ORDER BY ppm)", [("rank", "INT")]),
        ("CAST(cbrt(ppm) AS INT), levenshtein(location, 'a')", [("cbrt", "INT"), ("levenshtein", "INT")]),
    ],
)
def test_outputs_have_the_names_and_types_that_postgresql_users_expect(
    world: World, items: str, outputs: list[tuple[str, str]]
) -> None:
    assert _outputs(world, items, "sensors s") == outputs


def test_star_gives_static_columns_then_the_streams_fields_then_ts(world: World) -> None:
    names = [name for name, _ in _outputs(world, "*", "odd")]
    assert names == ["id", "name", "seen", "r.name", "amount", "ok", "big", "tags", "at", "ts"]


def test_operands_have_equal_types_in_a_plan(world: World) -> None:
    plan = world.select("SELECT ppm FROM sensors WHERE ppm > gas_id AND gas_id = 3000000000")
    assert str(plan.stream_predicate) == "and(gt(ppm, cast(gas_id)), eq(cast(gas_id), 3000000000))"


def test_a_query_without_a_window_starts_at_registration_and_a_select_sees_everything(world: World) -> None:
    assert world.select("SELECT ppm FROM sensors", standing=True).window == FROM_REGISTRATION
    assert world.select("SELECT ppm FROM sensors").window == EVERYTHING


def test_a_plan_survives_its_journey_through_json(world: World) -> None:
    for sql in (
        "SELECT ppm, location FROM sensors WHERE similar(ppm, 3) AND location = 'x' BEGIN (LAST 5 ROWS)",
        "SELECT similar(a.ppm, b.ppm) FROM sensors a, sensors b WHERE a.sensor_id = 1 BEGIN (NOW - 1 HOUR)",
    ):
        plan = world.plan(sql, standing=True)
        assert plan_from_json(plan_to_json(plan)) == plan


def test_the_same_question_can_be_asked_of_spark(world: World) -> None:
    plan = world.plan("SELECT ppm FROM sensors WHERE ppm > 3", shared=False)
    assert isinstance(plan, SparkPlan)
    assert (
        plan.sql == "SELECT `sensors`.`ppm` AS `ppm` FROM IDENTIFIER(:r0) AS `sensors` "
        "WHERE `sensors`.`ppm` > CAST('3.0' AS DOUBLE)"
    )


def test_what_a_plan_reads_is_known_by_name(world: World) -> None:
    world.run("CREATE QUERY alarm AS SELECT ppm, sensor_id FROM sensors WHERE ppm > 35")
    world.run(
        "CREATE QUERY mean AS SELECT location, AVG(ppm) AS m FROM sensors WHERE similar(ppm, 1) GROUP BY location"
    )
    sql = (
        "SELECT a.ppm FROM alarm a, mean m, loops l, my_segments o WHERE l.segment = o.segment AND similar(a.ppm, m.m)"
    )
    tables, queries, functions = reads_of(world.plan(sql, standing=True), world)
    assert tables == ("loops", "my_segments", "sensors")
    assert queries == ("alarm", "mean")
    assert functions == ("similar",)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT * FROM alarm", "alarm"),
        ("select * from ALARM;", "alarm"),
        ("SELECT * FROM alarm LIMIT 3", None),
        ("SELECT * FROM alarm WHERE ppm > 3", None),
        ("SELECT ppm FROM alarm", None),
        ("SELECT * FROM sensors", None),
        ("SELECT * FROM alarm, sensors", None),
    ],
)
def test_only_select_star_from_a_query_invokes_it(world: World, sql: str, name: str | None) -> None:
    world.run("CREATE QUERY alarm AS SELECT ppm FROM sensors")
    (statement,) = parse_script(sql)
    assert isinstance(statement, Select)
    assert invocation_of(statement, world) == name


def test_planning_leaves_the_statement_as_it_was(world: World) -> None:
    (statement,) = parse_script("SELECT location, AVG(ppm) FROM sensors GROUP BY location BEGIN (NOW - 1 HOUR)")
    assert isinstance(statement, Select)
    first = plan_query(statement, world, True, SYSTEM)
    assert plan_query(statement, world, True, SYSTEM) == first


def test_an_inlined_query_keeps_its_own_start(world: World) -> None:
    world.run("CREATE QUERY mean AS SELECT AVG(ppm) AS m FROM sensors BEGIN (START - 1 SECOND)")
    plan = world.spark("SELECT m FROM mean WHERE m > 3 BEGIN (NOW - 1 DAY)", standing=True)
    (relation,) = plan.relations
    assert str(relation.window) == "BEGIN (1969-12-31T23:59:59.000000Z) END (NOW)"


def test_every_reference_to_a_table_reads_for_itself(world: World) -> None:
    plan = world.spark(
        "WITH x AS (SELECT ppm FROM sensors) SELECT 1 FROM x a, x b, sensors c WHERE c.ppm IN (SELECT ppm FROM x)"
    )
    assert [r.name for r in plan.relations] == ["r0", "r1", "r2", "r3"]
    for relation in plan.relations:
        assert plan.sql.count(f"IDENTIFIER(:{relation.name})") == 1


def test_a_sensor_is_opened_only_where_its_stream_is_asked_for(world: World) -> None:
    plan = world.spark("SELECT a.ppm, b.location FROM sensors a JOIN sensors b ON a.lat = b.lon WHERE b.sensor_id = 1")
    assert [(r.kind, str(r.static_predicate)) for r in plan.relations] == [
        ("stream", "None"),
        ("static", "eq(sensor_id, 1)"),
    ]


def test_no_static_condition_is_pushed_below_an_outer_join(world: World) -> None:
    plan = world.spark(
        "SELECT a.ppm, b.ppm FROM sensors a LEFT JOIN sensors b ON a.lat = b.lat WHERE b.location IS NULL"
    )
    assert [r.static_predicate for r in plan.relations] == [None, None]


def test_a_union_shares_the_window_behind_its_last_select(world: World) -> None:
    plan = world.spark("SELECT ppm FROM sensors UNION ALL SELECT speed FROM loops BEGIN (NOW - 1 HOUR)")
    assert {str(r.window) for r in plan.relations} == {"BEGIN (NOW - 1h) END (NOW)"}


@pytest.mark.parametrize("column", ["tags", "at"])
def test_a_nested_value_is_spelled_by_spark_alone(world: World, column: str) -> None:
    plan = world.plan(f"SELECT amount FROM odd WHERE CAST({column} AS TEXT) <> ''", standing=True)
    assert isinstance(plan, SparkPlan) and "as TEXT runs as Spark SQL" in plan.reason


def test_a_name_of_with_is_known_inside_of_its_own_question_only(world: World) -> None:
    inside = "(WITH x AS (SELECT MAX(ppm) AS m FROM sensors) SELECT m FROM x)"
    assert isinstance(world.plan(f"SELECT {inside} AS a FROM my_segments"), SparkPlan)
    with pytest.raises(PenstockError, match='there is no table "x"'):
        world.plan(f"SELECT {inside} AS a, (SELECT m FROM x) AS b FROM my_segments")
