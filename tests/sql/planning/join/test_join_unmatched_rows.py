"""Plans of LEFT JOIN and NOT EXISTS within a window: rows without a partner."""

from __future__ import annotations

from penstock.expr.windows import Bound, TimeWindow
from penstock.sql.explain.notation import show
from tests.sql.world import World
from tests.support.join_plans import SILENCE, S, alone, conditions, keys


def test_on_of_a_left_join_decides_about_partners_and_where_about_rows(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm, b.speed FROM sensors a LEFT JOIN loops b ON a.sensor_id = b.loop_id AND b.segment = 3 "
        "AND b.speed > 3 AND a.ppm > 5 AND a.ppm < b.speed WINDOW(a,b) = 10 SECONDS WHERE a.location = 'x' AND a.ppm > 1"
    )
    assert plan.missing == "left"
    assert [each.alias for each in plan.inputs] == ["a", "b"]
    assert alone(plan) == [("location = 'x'", "ppm > 1.0"), ("segment = 3", "speed > 3.0")]
    assert keys(plan) == [["sensor_id"], ["loop_id"]]
    assert conditions(plan) == ["a.ppm > 5.0", "a.ppm < b.speed"]


def test_a_left_join_in_spark_waits_until_the_window_has_passed(world: World) -> None:
    text = world.spark(
        "SELECT a.ppm FROM sensors a LEFT JOIN loops b ON a.ppm = b.speed OR FALSE DWINDOW(a,b) = 10 SECONDS "
        "WHERE a.ppm > 1"
    ).sql
    difference = "(unix_micros(`b`.`ts`) - unix_micros(`a`.`ts`))"
    assert text.endswith(
        "ON (`a`.`ppm` = `b`.`speed` OR FALSE) "
        f"AND {difference} >= CAST(0 AS BIGINT) AND {difference} <= CAST(10000000 AS BIGINT) "
        "WHERE `a`.`ppm` > CAST('1.0' AS DOUBLE) AND (NOT `b`.`ts` IS NULL OR "
        "timestamp_micros(:now) > timestamp_micros(unix_micros(`a`.`ts`) + (CAST(10000000 AS BIGINT))))"
    )


def test_static_conditions_of_on_choose_the_sensors_in_spark_too(world: World) -> None:
    plan = world.spark(
        "SELECT a.ppm FROM sensors a LEFT JOIN loops b ON b.segment = 3 AND a.sensor_id = 1 WINDOW(a,b) = '1m'"
    )
    assert [None if r.static_predicate is None else show(r.static_predicate) for r in plan.relations] == [
        None,
        "segment = 3",
    ]


def test_no_reading_for_a_while_is_an_anti_join_of_a_table_with_itself(world: World) -> None:
    plan = world.join(SILENCE)
    assert plan.missing == "anti"
    assert [each.alias for each in plan.inputs] == ["p", "n"]
    assert keys(plan) == [["sensor_id"], ["sensor_id"]]
    assert conditions(plan) == ["n.ts > p.ts"]
    assert plan.bounds == ((0, 300 * S), (0, 0))
    assert [(o.name, show(o.expr)) for o in plan.outputs] == [("sensor_id", "p.sensor_id"), ("ts", "p.ts")]


def test_conditions_inside_not_exists_never_filter_the_rows_outside(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a WHERE a.sensor_id = 4 AND (NOT (EXISTS (SELECT 1 FROM loops b WHERE b.segment = 4 "
        "AND b.speed > 5 AND a.ppm < 100 AND b.speed = a.ppm AND b.speed = a.lat "
        "WINDOW(a,b) BETWEEN -5 SECONDS AND 30 SECONDS))) BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    assert alone(plan) == [("sensor_id = 4", None), ("segment = 4", "speed > 5.0")]
    assert keys(plan) == [["ppm"], ["speed"]]
    assert conditions(plan) == ["a.ppm < 100.0", "a.ppm = a.lat"]
    assert plan.bounds == ((0, 30 * S), (5 * S, 0))
    assert {each.window for each in plan.inputs} == {TimeWindow(Bound("now", -3600 * S), Bound("now"))}


def test_not_exists_in_spark_waits_until_the_window_has_passed(world: World) -> None:
    text = world.spark(SILENCE).sql
    assert text.endswith(
        ") AND timestamp_micros(:now) > timestamp_micros(unix_micros(`p`.`ts`) + (CAST(300000000 AS BIGINT))))"
    )
    assert ":now" not in world.spark(SILENCE.replace("NOT EXISTS", "EXISTS")).sql


def test_not_exists_over_two_streams_waits_for_the_later_of_them(world: World) -> None:
    text = world.spark(
        "SELECT a.ppm FROM sensors a WHERE NOT EXISTS "
        "(SELECT 1 FROM loops b, loops c DWINDOW(a,b) = 10 SECONDS AND DWINDOW(b,c) = 20 SECONDS)"
    ).sql
    assert text.endswith(
        "timestamp_micros(:now) > timestamp_micros(unix_micros(`a`.`ts`) + (CAST(30000000 AS BIGINT))))"
    )
