"""Which stream of a window join decides which condition, what becomes a key, and what a combination consists of."""

from __future__ import annotations

from penstock.expr.windows import Bound, TimeWindow
from penstock.sql.explain.notation import show
from penstock.sql.explain.plan import explain
from penstock.sql.planning.join.keys import partial_keys
from tests.sql.world import World
from tests.support.join_plans import S, alone, conditions, keys, refused


def test_each_condition_goes_to_whoever_can_decide_it(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, sensors b, loops c WINDOW = 1 HOUR WHERE a.location = 'x' AND b.ppm > 3 "
        "AND a.sensor_id = b.sensor_id AND b.sensor_id = c.loop_id AND a.ppm < b.ppm AND similar(b.ppm, c.speed)"
    )
    assert alone(plan) == [("location = 'x'", None), (None, "ppm > 3.0"), (None, None)]
    assert keys(plan) == [["sensor_id"], ["sensor_id"], ["loop_id"]]
    assert conditions(plan) == ["a.ppm < b.ppm", "similar(b.ppm, c.speed)"]
    assert [show(o.expr) for o in plan.outputs] == ["a.ppm"]
    assert plan.missing == "inner" and plan.algorithm is None


def test_conditions_of_on_count_like_those_of_where(world: World) -> None:
    on = world.join("SELECT a.ppm FROM sensors a JOIN loops b ON a.ppm = b.speed AND b.segment = 3 WINDOW(a,b) = '1s'")
    where = world.join(
        "SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) = '1s' WHERE a.ppm = b.speed AND b.segment = 3"
    )
    assert on == where


def test_windows_between_some_pairs_bound_all_of_them(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, loops b, loops c DWINDOW(a,b) = 30 SECONDS AND WINDOW(b,c) BETWEEN -5 SECONDS "
        "AND 1 MINUTE"
    )
    assert plan.bounds == ((0, 30 * S, 90 * S), (0, 0, 60 * S), (5 * S, 5 * S, 0))


def test_an_equality_that_leaves_a_stream_out_is_no_key_of_all_but_looked_up(world: World) -> None:
    sql = "SELECT {}a.ppm FROM sensors a, sensors b, loops c WINDOW = '1m' WHERE a.location = b.location AND b.ppm < c.speed"
    plan = world.join(sql.format(""))
    assert keys(plan) == [[], [], []]
    assert conditions(plan) == ["a.location = b.location", "b.ppm < c.speed"]
    assert [[[show(e) for e in own] for own in key.by_input] for key in partial_keys(plan)] == [
        [["location"], ["location"], []]
    ]
    lines = explain(plan, world).splitlines()
    assert "  looked up: a.location = b.location" in lines and "  conditions: b.ppm < c.speed" in lines
    assert partial_keys(world.join(sql.format("/*+ JOIN(scan) */ "))) == []


def test_equalities_between_some_streams_make_one_key_per_set_of_streams(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, sensors b, loops c, loops d WINDOW = '1m' WHERE a.location = b.location "
        "AND a.sensor_id = b.sensor_id AND b.sensor_id = c.length AND c.speed = d.speed"
    )
    assert [[[show(e) for e in own] for own in key.by_input] for key in partial_keys(plan)] == [
        [["location"], ["location"], [], []],
        [["sensor_id"], ["sensor_id"], ["length"], []],
        [[], [], ["speed"], ["speed"]],
    ]


def test_two_equalities_make_two_keys_in_the_same_order_everywhere(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, sensors b WINDOW = '1m' WHERE a.location = b.location AND b.sensor_id = a.sensor_id"
    )
    assert keys(plan) == [["location", "sensor_id"]] * 2
    assert conditions(plan) == []


def test_a_second_expression_of_one_stream_in_a_key_is_a_predicate_of_that_stream(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE a.sensor_id = b.loop_id AND a.sensor_id = b.length"
    )
    assert keys(plan) == [["sensor_id"], ["loop_id"]]
    assert alone(plan) == [(None, None), (None, "loop_id = length")]


def test_int_and_bigint_are_one_key_of_one_type(world: World) -> None:
    plan = world.join(
        "SELECT a.id FROM odd a, sensors b, loops c WINDOW = '1m' WHERE a.id = b.sensor_id AND b.sensor_id = c.loop_id"
    )
    assert keys(plan) == [["id"], ["CAST(sensor_id AS BIGINT)"], ["CAST(loop_id AS BIGINT)"]]
    assert {str(key.type) for each in plan.inputs for key in each.keys} == {"BIGINT"}


def test_whole_numbers_and_doubles_do_not_chain_because_rounding_is_not_transitive(world: World) -> None:
    plan = world.join("SELECT a.id FROM odd a, odd b, loops c WINDOW = '1m' WHERE a.id = b.id AND b.id = c.speed")
    assert keys(plan) == [[], [], []]
    assert conditions(plan) == ["a.id = b.id", "CAST(b.id AS DOUBLE) = c.speed"]


def test_equal_structs_are_compared_and_not_hashed(world: World) -> None:
    plan = world.join("SELECT a.id FROM odd a, odd b WINDOW = '1m' WHERE a.tags = b.tags AND a.at.x = b.at.x")
    assert keys(plan) == [["get_field(at, 'x')"]] * 2
    assert conditions(plan) == ["a.tags = b.tags"]


def test_a_condition_without_any_stream_is_kept(world: World) -> None:
    assert conditions(world.join("SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE FALSE")) == ["FALSE"]


def test_each_stream_has_its_own_window_over_time(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' BEGIN (NOW - 1 HOUR) END (NOW) BEGIN (NOW - 1 DAY) FOR b"
    )
    hour, day = (TimeWindow(Bound("now", -n * 3600 * S), Bound("now")) for n in (1, 24))
    assert [each.window for each in plan.inputs] == [hour, day]


def test_ts_is_the_latest_of_a_combination_and_ts_min_the_earliest(world: World) -> None:
    sql = "SELECT ts, ts_min, a.ts AS first FROM sensors a, loops b WINDOW = '1m' WHERE ts > '2026-01-01'"
    plan = world.join(sql)
    assert [(o.name, show(o.expr)) for o in plan.outputs] == [
        ("ts", "greatest(a.ts, b.ts)"),
        ("ts_min", "least(a.ts, b.ts)"),
        ("first", "a.ts"),
    ]
    text = world.spark(sql).sql
    assert "GREATEST(`a`.`ts`, `b`.`ts`) AS `ts`, LEAST(`a`.`ts`, `b`.`ts`) AS `ts_min`" in text
    assert "WHERE GREATEST(`a`.`ts`, `b`.`ts`) > " in text


def test_without_a_window_between_the_streams_ts_stays_ambiguous(world: World) -> None:
    assert refused(world, "SELECT ts FROM sensors a, loops b").condition == "ambiguous_column"


def test_combinations_can_be_grouped_by_their_time(world: World) -> None:
    text = world.spark(
        "SELECT window_start, COUNT(*) AS n FROM sensors a, loops b WINDOW = '1m' GROUP BY TUMBLE(1 MINUTE)"
    ).sql
    assert "GROUP BY timestamp_micros(unix_micros(GREATEST(`a`.`ts`, `b`.`ts`))" in text
    world.spark("SELECT ts, COUNT(*) AS n FROM sensors a, loops b WINDOW = '1m' GROUP BY ts")
    failure = refused(world, "SELECT ts, COUNT(*) AS n FROM sensors a, loops b WINDOW = '1m'")
    assert (failure.message, failure.column) == ("ts is neither grouped nor aggregated", 8)


def test_a_star_has_the_columns_of_every_stream(world: World) -> None:
    plan = world.join("SELECT * FROM loops a, pulse b WINDOW = '1m'")
    assert [o.name for o in plan.outputs] == ["loop_id", "segment", "speed", "length", "ppm", "ts", "volt", "ts_2"]
    assert [show(o.expr) for o in plan.outputs][-3:] == ["a.ts", "b.volt", "b.ts"]
