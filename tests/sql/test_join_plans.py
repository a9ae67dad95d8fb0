"""Window joins of standing queries: what their plans say, and what the errors point at."""

from __future__ import annotations

import orjson
import pytest

from penstock.errors import PenstockError
from penstock.operators.windows import Bound, TimeWindow
from penstock.sql.explain import explain, show, stages
from penstock.sql.hints import algorithms
from penstock.sql.join_keys import partial_keys
from penstock.sql.parse import parse_script
from penstock.sql.plan import JoinPlan, SparkPlan, plan_from_json, plan_to_json
from penstock.sql.planner import functions_of, plan_query, reads_of, retarget_window
from penstock.sql.statements import AlterQuery, Select
from tests.sql.world import World, plant

S = 1_000_000
SILENCE = (
    "SELECT p.sensor_id, p.ts FROM sensors p WHERE NOT EXISTS (SELECT 1 FROM sensors n "
    "WHERE n.sensor_id = p.sensor_id AND n.ts > p.ts DWINDOW(p,n) = 5 MINUTES)"
)


@pytest.fixture
def world() -> World:
    return plant()


def _planned(world: World, sql: str, standing: bool = True) -> object:
    (statement,) = parse_script(sql)
    assert isinstance(statement, Select)
    return plan_query(statement, world, standing, joins=True)


def _refused(world: World, sql: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        _planned(world, sql)
    return caught.value


def _under_caret(failure: PenstockError, sql: str) -> str:
    assert failure.line == 1 and failure.column is not None
    shown = failure.render().splitlines()[2]
    return sql[failure.column - 1 : failure.column - 1 + shown.count("^")]


def _keys(plan: JoinPlan) -> list[list[str]]:
    return [[show(key) for key in each.keys] for each in plan.inputs]


def _conditions(plan: JoinPlan) -> list[str]:
    return [show(condition) for condition in plan.conditions]


def _alone(plan: JoinPlan) -> list[tuple[str | None, str | None]]:
    return [
        (
            None if each.static_predicate is None else show(each.static_predicate),
            None if each.stream_predicate is None else show(each.stream_predicate),
        )
        for each in plan.inputs
    ]


# -- inner joins


def test_each_condition_goes_to_whoever_can_decide_it(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, sensors b, loops c WINDOW = 1 HOUR WHERE a.location = 'x' AND b.ppm > 3 "
        "AND a.sensor_id = b.sensor_id AND b.sensor_id = c.loop_id AND a.ppm < b.ppm AND similar(b.ppm, c.speed)"
    )
    assert _alone(plan) == [("location = 'x'", None), (None, "ppm > 3.0"), (None, None)]
    assert _keys(plan) == [["sensor_id"], ["sensor_id"], ["loop_id"]]
    assert _conditions(plan) == ["a.ppm < b.ppm", "similar(b.ppm, c.speed)"]
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
    assert _keys(plan) == [[], [], []]
    assert _conditions(plan) == ["a.location = b.location", "b.ppm < c.speed"]
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
    assert _keys(plan) == [["location", "sensor_id"]] * 2
    assert _conditions(plan) == []


def test_a_second_expression_of_one_stream_in_a_key_is_a_predicate_of_that_stream(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE a.sensor_id = b.loop_id AND a.sensor_id = b.length"
    )
    assert _keys(plan) == [["sensor_id"], ["loop_id"]]
    assert _alone(plan) == [(None, None), (None, "loop_id = length")]


def test_int_and_bigint_are_one_key_of_one_type(world: World) -> None:
    plan = world.join(
        "SELECT a.id FROM odd a, sensors b, loops c WINDOW = '1m' WHERE a.id = b.sensor_id AND b.sensor_id = c.loop_id"
    )
    assert _keys(plan) == [["id"], ["CAST(sensor_id AS BIGINT)"], ["CAST(loop_id AS BIGINT)"]]
    assert {str(key.type) for each in plan.inputs for key in each.keys} == {"BIGINT"}


def test_whole_numbers_and_doubles_do_not_chain_because_rounding_is_not_transitive(world: World) -> None:
    plan = world.join("SELECT a.id FROM odd a, odd b, loops c WINDOW = '1m' WHERE a.id = b.id AND b.id = c.speed")
    assert _keys(plan) == [[], [], []]
    assert _conditions(plan) == ["a.id = b.id", "CAST(b.id AS DOUBLE) = c.speed"]


def test_equal_structs_are_compared_and_not_hashed(world: World) -> None:
    plan = world.join("SELECT a.id FROM odd a, odd b WINDOW = '1m' WHERE a.tags = b.tags AND a.at.x = b.at.x")
    assert _keys(plan) == [["get_field(at, 'x')"]] * 2
    assert _conditions(plan) == ["a.tags = b.tags"]


def test_a_condition_without_any_stream_is_kept(world: World) -> None:
    assert _conditions(world.join("SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' WHERE FALSE")) == ["FALSE"]


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
    assert _refused(world, "SELECT ts FROM sensors a, loops b").condition == "ambiguous_column"


def test_combinations_can_be_grouped_by_their_time(world: World) -> None:
    text = world.spark(
        "SELECT window_start, COUNT(*) AS n FROM sensors a, loops b WINDOW = '1m' GROUP BY TUMBLE(1 MINUTE)"
    ).sql
    assert "GROUP BY timestamp_micros(unix_micros(GREATEST(`a`.`ts`, `b`.`ts`))" in text
    world.spark("SELECT ts, COUNT(*) AS n FROM sensors a, loops b WINDOW = '1m' GROUP BY ts")
    failure = _refused(world, "SELECT ts, COUNT(*) AS n FROM sensors a, loops b WINDOW = '1m'")
    assert (failure.message, failure.column) == ("ts is neither grouped nor aggregated", 8)


def test_a_star_has_the_columns_of_every_stream(world: World) -> None:
    plan = world.join("SELECT * FROM loops a, pulse b WINDOW = '1m'")
    assert [o.name for o in plan.outputs] == ["loop_id", "segment", "speed", "length", "ppm", "ts", "volt", "ts_2"]
    assert [show(o.expr) for o in plan.outputs][-3:] == ["a.ts", "b.volt", "b.ts"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT COUNT(*) FROM sensors a, loops b WINDOW = '1m' ORDER BY 1", "ORDER BY over aggregates"),
        ("SELECT a.ppm FROM sensors a, loops b WINDOW = '1m' GROUP BY CUBE (a.ppm)", "grouping sets"),
        ("SELECT DISTINCT a.ppm FROM sensors a, loops b WINDOW = '1m'", "DISTINCT"),
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
            "a function in the SELECT list of LEFT JOIN or NOT EXISTS",
        ),
        ("SELECT a.ppm FROM sensors a, loops b", "a join"),
        (
            "SELECT s1.ppm FROM " + ", ".join(f"sensors s{i}" for i in range(9)) + " WINDOW = '1m'",
            "more than 8 streams",
        ),
    ],
)
def test_what_the_join_step_does_not_do_runs_as_spark_sql_and_says_why(world: World, sql: str, reason: str) -> None:
    plan = _planned(world, sql)
    assert isinstance(plan, SparkPlan)
    assert reason in plan.reason and "Spark SQL" in plan.reason


def test_a_select_asked_once_runs_as_spark_sql(world: World) -> None:
    sql = "SELECT a.ppm FROM sensors a, loops b WINDOW = '1m'"
    assert isinstance(_planned(world, sql, standing=False), SparkPlan)


def test_reading_a_window_join_writes_it_out(world: World) -> None:
    from dataclasses import replace

    sql = "SELECT a.ppm, ts FROM sensors a, loops b WINDOW = '1m'"
    world.run(f"CREATE QUERY near AS {sql}")
    world.queries["near"] = replace(world.queries["near"], stored_plan=orjson.dumps(plan_to_json(world.join(sql))))
    plan = world.spark("SELECT ppm FROM near WHERE ts > '2026-01-01'")
    assert plan.inlined == ("near",)
    assert reads_of(plan, world)[:2] == (("loops", "sensors"), ("near",))


# -- rows without a partner


def test_on_of_a_left_join_decides_about_partners_and_where_about_rows(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm, b.speed FROM sensors a LEFT JOIN loops b ON a.sensor_id = b.loop_id AND b.segment = 3 "
        "AND b.speed > 3 AND a.ppm > 5 AND a.ppm < b.speed WINDOW(a,b) = 10 SECONDS WHERE a.location = 'x' AND a.ppm > 1"
    )
    assert plan.missing == "left"
    assert [each.alias for each in plan.inputs] == ["a", "b"]
    assert _alone(plan) == [("location = 'x'", "ppm > 1.0"), ("segment = 3", "speed > 3.0")]
    assert _keys(plan) == [["sensor_id"], ["loop_id"]]
    assert _conditions(plan) == ["a.ppm > 5.0", "a.ppm < b.speed"]


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
        "{now} > timestamp_micros(unix_micros(`a`.`ts`) + (CAST(10000000 AS BIGINT))))"
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
    assert _keys(plan) == [["sensor_id"], ["sensor_id"]]
    assert _conditions(plan) == ["n.ts > p.ts"]
    assert plan.bounds == ((0, 300 * S), (0, 0))
    assert [(o.name, show(o.expr)) for o in plan.outputs] == [("sensor_id", "p.sensor_id"), ("ts", "p.ts")]


def test_conditions_inside_not_exists_never_filter_the_rows_outside(world: World) -> None:
    plan = world.join(
        "SELECT a.ppm FROM sensors a WHERE a.sensor_id = 4 AND (NOT (EXISTS (SELECT 1 FROM loops b WHERE b.segment = 4 "
        "AND b.speed > 5 AND a.ppm < 100 AND b.speed = a.ppm AND b.speed = a.lat "
        "WINDOW(a,b) BETWEEN -5 SECONDS AND 30 SECONDS))) BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    assert _alone(plan) == [("sensor_id = 4", None), ("segment = 4", "speed > 5.0")]
    assert _keys(plan) == [["ppm"], ["speed"]]
    assert _conditions(plan) == ["a.ppm < 100.0", "a.ppm = a.lat"]
    assert plan.bounds == ((0, 30 * S), (5 * S, 0))
    assert {each.window for each in plan.inputs} == {TimeWindow(Bound("now", -3600 * S), Bound("now"))}


def test_not_exists_in_spark_waits_until_the_window_has_passed(world: World) -> None:
    text = world.spark(SILENCE).sql
    assert text.endswith(") AND {now} > timestamp_micros(unix_micros(`p`.`ts`) + (CAST(300000000 AS BIGINT))))")
    assert "{now}" not in world.spark(SILENCE.replace("NOT EXISTS", "EXISTS")).sql


def test_not_exists_over_two_streams_waits_for_the_later_of_them(world: World) -> None:
    text = world.spark(
        "SELECT a.ppm FROM sensors a WHERE NOT EXISTS "
        "(SELECT 1 FROM loops b, loops c DWINDOW(a,b) = 10 SECONDS AND DWINDOW(b,c) = 20 SECONDS)"
    ).sql
    assert text.endswith("{now} > timestamp_micros(unix_micros(`a`.`ts`) + (CAST(30000000 AS BIGINT))))")


# -- errors


@pytest.mark.parametrize(
    ("sql", "detail", "caret"),
    [
        (
            "SELECT a.ppm FROM sensors a, sensors b, loops c, loops d WINDOW(a,b) = '30s' AND WINDOW(c,d) = '1m'",
            'no window connects "c" and "d" with "a"',
            "WINDOW(a,b) = '30s' AND WINDOW(c,d) = '1m'",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b, loops c WINDOW(a,b) = '30s' BEGIN (START) END (NOW)",
            'no window connects "c" with "a"',
            "WINDOW(a,b) = '30s'",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b, loops c DWINDOW(a,b) = '30s' AND WINDOW(b,c) = '1h' "
            "AND WINDOW(b,a) BETWEEN '1m' AND '2m'",
            'no times can satisfy the windows between "a" and "b"',
            "WINDOW(b,a) BETWEEN '1m' AND '2m'",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b, loops c DWINDOW(a,b) = '30s' AND DWINDOW(b,c) = '30s' "
            "AND WINDOW(c,a) BETWEEN '5s' AND '9s'",
            'no times can satisfy the windows between "a", "b" and "c"',
            "WINDOW(c,a) BETWEEN '5s' AND '9s'",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW(b,b) = '1s'",
            '"b" has no window with itself',
            "WINDOW(b,b) = '1s'",
        ),
        ("SELECT a.ppm FROM sensors a WINDOW = '1s'", "a window needs two streams", "WINDOW = '1s'"),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) = -5 SECONDS",
            "a window cannot be negative",
            "WINDOW",
        ),
        (
            "SELECT a.ppm FROM sensors a, loops b WINDOW(a,b) BETWEEN 5 SECONDS AND 1 SECOND",
            "the window is empty: its low end lies past the high",
            "WINDOW",
        ),
        (
            "SELECT a.ppm FROM sensors a, my_segments m WINDOW(a,m) = '1s'",
            '"m" has no stream, and so no times to be near',
            "WINDOW(a,m) = '1s'",
        ),
        (
            "SELECT a.ppm FROM sensors a WHERE NOT EXISTS (SELECT 1 FROM loops b, loops c WINDOW(a,b) = '1s') "
            "BEGIN (NOW - 1 HOUR) END (NOW)",
            'no window connects "c" with "a"',
            "WINDOW(a,b) = '1s'",
        ),
    ],
)
def test_windows_that_cannot_be_meant_are_refused_at_their_clause(
    world: World, sql: str, detail: str, caret: str
) -> None:
    failure = _refused(world, sql)
    assert (failure.condition, failure.message) == ("invalid_window", detail)
    assert _under_caret(failure, sql) == caret
    assert failure.hint


@pytest.mark.parametrize(
    "clause", ["BEGIN (NOW - 1 HOUR)", "BEGIN (START) END ('2030-01-01')", "BEGIN ('2026-01-01') END ('2026-01-02')"]
)
def test_begin_and_end_can_stand_for_a_missing_window_in_spark_sql(world: World, clause: str) -> None:
    question = f"SELECT a.ppm FROM sensors a, loops b, loops c WINDOW(a,b) = '30s' {clause}"
    (statement,) = parse_script(question)
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, True, joins=True)
    assert isinstance(plan, SparkPlan)
    assert plan.reason == "a join of streams that only BEGIN .. END connects runs as Spark SQL"


def test_a_window_names_streams_outside_only_from_exists(world: World) -> None:
    inside = "(SELECT COUNT(*) FROM loops b WINDOW(a,b) = '1s')"
    failure = _refused(world, f"SELECT a.ppm FROM sensors a WHERE 3 > {inside}")
    assert (failure.condition, failure.hint) == ("table_not_found", "the streams of FROM are b")


@pytest.mark.parametrize(
    "joined",
    [
        "sensors a RIGHT JOIN loops b ON a.ppm = b.speed",
        "sensors a FULL JOIN loops b ON a.ppm = b.speed",
        "sensors a JOIN sensors c ON TRUE LEFT JOIN loops b ON a.ppm = b.speed",
        "my_segments m LEFT JOIN sensors a ON TRUE LEFT JOIN loops b ON TRUE",
    ],
)
def test_other_outer_joins_within_a_window_are_refused(world: World, joined: str) -> None:
    sql = f"SELECT 1 FROM {joined} WINDOW = '1s'"
    failure = _refused(world, sql)
    assert failure.condition == "not_supported"
    assert _under_caret(failure, sql) == "WINDOW = '1s'"


# -- hints


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
            "there are sorted_runs, scan, nested",
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
    failure = _refused(world, sql)
    assert _under_caret(failure, sql) == caret
    assert advice in (failure.hint or "")


def test_a_hint_stands_behind_the_first_select(world: World) -> None:
    sql = "SELECT x.ppm FROM (SELECT /*+ JOIN(hash) */ a.ppm FROM sensors a, loops b WINDOW = '1m') x"
    assert "behind the first SELECT" in (_refused(world, sql).hint or "")


def test_hints_elsewhere_are_comments(world: World) -> None:
    world.run("INSERT /*+ append */ INTO my_segments VALUES (1 /*+ one */, 'x')")


# -- what others need of a plan


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
    assert functions_of(plan) == ("similar",)
    assert reads_of(plan, world) == (("loops", "sensors"), (), ("similar",))


def test_a_join_gets_another_window_over_time(world: World) -> None:
    (statement,) = parse_script("ALTER QUERY q SET BEGIN (NOW - 1 HOUR)")
    assert isinstance(statement, AlterQuery)
    hour = TimeWindow(Bound("now", -3600 * S), Bound("now"))
    for sql in (SILENCE, "SELECT /*+ JOIN(gca) */ a.ppm FROM sensors a, loops b WHERE a.ppm > 1 WINDOW = '1m'"):
        before, after = world.join(sql), world.join(retarget_window(sql, statement))
        assert {each.window for each in after.inputs} == {hour}
        assert (after.bounds, after.algorithm) == (before.bounds, before.algorithm)


def test_explain_says_how_a_path_is_joined(world: World) -> None:
    plan = world.join(
        "SELECT /*+ JOIN(extended) */ a.ppm, ts FROM sensors a, loops b, loops c "
        "DWINDOW(a,b) = 30 SECONDS AND WINDOW(b,c) BETWEEN 5 SECONDS AND 1 MINUTE "
        "WHERE a.sensor_id = 1 AND b.speed > 3 AND b.loop_id = c.loop_id AND similar(a.ppm, b.speed)"
    )
    assert explain(plan, world).splitlines() == [
        "window join of 3 streams, directed path, in the cycle beside the shared pass",
        '  a: stream of "sensors"',
        "    window: BEGIN (START) END (NOW)",
        "    initial scan: sensor_id = 1",
        "    stream predicate: none",
        "    key: none",
        '  b: stream of "loops"',
        "    window: BEGIN (START) END (NOW)",
        "    initial scan: every sensor",
        "    stream predicate: speed > 3.0",
        "    key: none",
        '  c: stream of "loops"',
        "    window: BEGIN (START) END (NOW)",
        "    initial scan: every sensor",
        "    stream predicate: none",
        "    key: none",
        "  times: b at most 30s after a; c 5s to 1m30s after a; c 5s to 1m after b",
        "  conditions: (b.loop_id = c.loop_id) AND similar(a.ppm, b.speed)",
        "  algorithm: extended, as the hint asks",
        "  output: ppm DOUBLE = a.ppm, ts TIMESTAMP = greatest(a.ts, b.ts, c.ts)",
        "  functions: similar",
    ]


@pytest.mark.parametrize(
    ("windows", "form", "times"),
    [
        ("WINDOW = '1h'", "uniform clique", "a and b at most 1h apart"),
        ("WINDOW(a,b) = '1m' AND WINDOW(b,c) = '1m'", "path", "a and c at most 2m apart"),
        ("WINDOW(a,b) = '1m' AND WINDOW(b,c) = '1m' AND WINDOW(a,c) = '90s'", "clique", "a and c at most 1m30s apart"),
        ("DWINDOW(b,a) = '1m' AND DWINDOW(c,b) = '1m'", "directed path", "b at most 1m before a"),
        ("WINDOW(a,b) = '0s' AND WINDOW(b,c) = '1m'", "path", "a and b at the same time"),
        ("WINDOW(a,b) BETWEEN '-5s' AND '1m' AND WINDOW(b,c) = '1m'", "path", "b from 5s before to 1m after a"),
    ],
)
def test_explain_names_the_form_and_the_distance_of_every_pair(
    world: World, windows: str, form: str, times: str
) -> None:
    lines = explain(world.join(f"SELECT a.ppm FROM sensors a, loops b, loops c {windows}"), world).splitlines()
    assert lines[0].split(", ")[1] == form
    (stated,) = [line for line in lines if line.startswith("  times: ")]
    assert times in stated.removeprefix("  times: ").split("; ")


def test_explain_says_when_a_row_without_partner_answers(world: World) -> None:
    left = world.join("SELECT a.ppm FROM sensors a LEFT JOIN loops b ON TRUE WINDOW(a,b) BETWEEN '-9s' AND '-5s'")
    assert "  without a partner: NULL for b, once NOW > a.ts - 5s" in explain(left, world).splitlines()
    assert "  answers: p without a partner, once NOW > p.ts + 5m" in explain(world.join(SILENCE), world).splitlines()


def test_the_stages_of_a_join_end_with_its_plan(world: World) -> None:
    (statement,) = parse_script(
        "CREATE QUERY q AS SELECT /*+ JOIN(scan) */ a.ppm FROM sensors a, loops b WINDOW = '1m'"
    )
    lines = stages(statement, world, joins=True).splitlines()
    assert "/*+ JOIN(scan) */" in "\n".join(lines[: lines.index("bound")])
    assert lines[lines.index("plan") + 1] == "  window join of 2 streams, binary, in the cycle beside the shared pass"
