"""The oracle itself, on examples worked by hand."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings

from tests.oracle.commands import Advance, CreateQuery, Cycle, Push
from tests.oracle.compare import difference, rows_of
from tests.oracle.expressions import Col, Const, Ex, Op
from tests.oracle.generate import scripts, seeded_script
from tests.oracle.making import EPOCH_US
from tests.oracle.model import World
from tests.oracle.questions import Aggregate, Edge, LastRows, Query, Table, TimeSpan
from tests.oracle.spark_sql import answers, check_sql

S = 1_000_000
VALID = Table("probes", (("id", "INT"), ("room", "TEXT")), (("ppm", "DOUBLE"),), "valid", "accept")
ID, ROOM, PPM, TS = VALID.columns()


def op(name: str, *arguments: Ex) -> Op:
    return Op(name, arguments, "BOOLEAN")


def world_with(table: Table = VALID) -> World:
    world = World()
    world.create_table(table)
    world.insert(table.name, [(1, "north"), (2, "south")])
    return world


def send(world: World, *readings: tuple[int, float | None, float], now_s: float = 1000) -> dict[int, str]:
    """(sensor, ppm, seconds)."""
    rows = [{"id": sensor, "ppm": ppm, "ts": int(at * S)} for sensor, ppm, at in readings]
    return world.push("probes", rows, int(now_s * S)).refused


def times(answer: Counter[tuple[object, ...]]) -> list[float]:
    return sorted(int(str(row[0])) / S for row in answer.elements())


def ask(
    world: World, query: Query, head: int | None = None, now_s: float = 0, start_s: float | None = None
) -> list[float]:
    heads = {"probes": world.heads()["probes"] if head is None else head}
    return times(world.evaluate(query, heads, int(now_s * S), None if start_s is None else int(start_s * S)))


def test_a_sliding_window_includes_both_ends() -> None:
    # ts      10   11   12   13   14 = NOW
    # window            [---------]          BEGIN (NOW - 2 SECONDS)
    world = world_with()
    send(world, *((1, 1.0, at) for at in range(10, 15)))
    assert ask(world, Query(VALID, (TS,), None, TimeSpan(Edge("now", -2 * S)))) == [12, 13, 14]
    # window       [----]                    END (NOW - 2 SECONDS)
    delayed = TimeSpan(Edge("now", -3 * S), Edge("now", -2 * S))
    assert ask(world, Query(VALID, (TS,), None, delayed)) == [11, 12]
    # the same at an earlier head: NOW was 12
    assert ask(world, Query(VALID, (TS,), None, TimeSpan(Edge("now", -2 * S))), head=3) == [10, 11, 12]


def test_now_of_valid_time_asks_only_sensors_whose_static_values_pass() -> None:
    # sensor 1 (north)  10    12
    # sensor 2 (south)              20
    world = world_with()
    send(world, (1, 50.0, 10), (1, 1.0, 12), (2, 50.0, 20))
    window = TimeSpan(Edge("now", -3 * S))
    north = op("eq", ROOM, Const("north", "TEXT"))
    hot = op("gt", PPM, Const(35.0, "DOUBLE"))
    assert ask(world, Query(VALID, (TS,), north, window)) == [10, 12]
    assert ask(world, Query(VALID, (TS,), op("and", north, hot), window)) == [10], "NOW is 12, by a reading not shown"
    assert ask(world, Query(VALID, (TS,), hot, window)) == [20]
    mixed = op("or", north, hot)
    assert ask(world, Query(VALID, (TS,), mixed, window)) == [20], "an OR with a reading is no static predicate"


def test_now_of_transaction_time_is_the_cycles() -> None:
    table = Table("probes", VALID.static, VALID.fields, "transaction")
    world = world_with(table)
    for second in (10, 12, 11):  # the clock steps back
        world.push("probes", [{"id": 1, "ppm": 1.0}], second * S)
    query = Query(table, (TS,), None, TimeSpan(Edge("now", -2 * S)))
    assert ask(world, query, now_s=12) == [10, 12, 12]
    assert ask(world, query, now_s=14) == [12, 12], "time passes without data"
    assert ask(world, query, now_s=15) == []


def test_a_reading_keeps_the_static_values_of_its_moment() -> None:
    # log:      ts 10 (north)  | UPDATE room = 'east' |  ts 11 (east) | DELETE | INSERT 'west' | ts 12
    world = world_with()
    send(world, (1, 1.0, 10))
    world.update("probes", 1, {"room": "east"})
    send(world, (1, 1.0, 11))
    world.delete("probes", 1)
    assert send(world, (1, 1.0, 12)) == {0: "sensor_not_found"}
    world.insert("probes", [(1, "west")])
    send(world, (1, 1.0, 12))
    query = Query(VALID, (ROOM, TS))
    rows = world.evaluate(query, world.heads(), 0)
    assert rows == Counter([("north", 10 * S), ("east", 11 * S), ("west", 12 * S)])
    per_sensor = Query(VALID, (TS,), None, LastRows(1, per_sensor=True))
    assert ask(world, per_sensor) == [11, 12], "a sensor that was deleted and made anew is another sensor"


def test_the_last_rows_are_chosen_by_time_then_position_before_stream_predicates() -> None:
    # position   0     1     2     3
    # ts         12    10    12    11        newest first: 2, 0, 3, 1
    # ppm        1     2     3     4
    world = world_with()
    send(world, (1, 1.0, 12), (1, 2.0, 10), (1, 3.0, 12), (1, 4.0, 11))
    newest = Query(VALID, (PPM,), None, LastRows(3))
    assert world.evaluate(newest, world.heads(), 0) == Counter([(3.0,), (1.0,), (4.0,)])
    low = Query(VALID, (PPM,), op("lt", PPM, Const(3.0, "DOUBLE")), LastRows(3))
    assert world.evaluate(low, world.heads(), 0) == Counter([(1.0,)])
    south = Query(VALID, (PPM,), op("eq", ROOM, Const("south", "TEXT")), LastRows(3))
    assert world.evaluate(south, world.heads(), 0) == Counter(), "static predicates come first"


def test_start_is_now_at_registration_and_survives_a_change_of_window() -> None:
    # ts   10   11 | CREATE QUERY |  11   9   13
    world = world_with()
    send(world, (1, 1.0, 10), (1, 1.0, 11))
    world.create_query("q", Query(VALID, (TS,)), 0)
    registered = world.position
    send(world, (2, 1.0, 11), (2, 1.0, 9), (1, 1.0, 13))
    assert times(world.answer("q", world.heads(), registered, 0)) == [11, 11, 13]
    world.alter_window("q", TimeSpan(Edge("start", -1 * S)))
    assert times(world.answer("q", world.heads(), world.position, 0)) == [10, 11, 11, 13]
    assert times(world.answer("q", world.heads(), registered, 0)) == [11, 11, 13], "an older prefix, an older window"
    world.drop_query("q")
    assert world.live_queries(registered) == ["q"] and world.live_queries(world.position) == []


def test_without_a_reading_at_registration_everything_counts_as_later() -> None:
    world = world_with()
    world.create_query("q", Query(VALID, (TS,)), 0)
    assert world.answer("q", world.heads(), world.position, 0) == Counter()
    send(world, (1, 1.0, 10), (1, 1.0, 8))
    assert times(world.answer("q", world.heads(), world.position, 0)) == [8, 10]


@pytest.mark.parametrize(
    ("rule", "refused", "stored"),
    [("refuse", {1: "out_of_order"}, [9, 10, 10]), ("clamp", {}, [9, 10, 10, 10]), ("accept", {}, [5, 9, 10, 10])],
)
def test_out_of_order_is_about_one_sensor_and_late_is_not_refused(
    rule: str, refused: dict[int, str], stored: list[float]
) -> None:
    # sensor 1   10   5   10
    # sensor 2               9 (late, but in order)
    table = Table("probes", VALID.static, VALID.fields, "valid", rule)  # type: ignore[arg-type]
    world = world_with(table)
    assert send(world, (1, 1.0, 10), (1, 1.0, 5), (1, 1.0, 10), (2, 1.0, 9)) == refused
    assert ask(world, Query(table, (TS,))) == stored


def test_readings_from_the_future_and_of_unknown_sensors_are_refused() -> None:
    world = world_with()
    refused = send(world, (1, 1.0, 161), (1, 1.0, 160), (7, 1.0, 10), now_s=100)
    assert refused == {0: "too_far_ahead", 2: "sensor_not_found"}


def test_what_retention_took_is_gone() -> None:
    world = world_with()
    send(world, (1, 1.0, 10), (1, 1.0, 11))
    before = world.position
    world.retain("probes", 1)
    query = Query(VALID, (TS,))
    assert times(world.evaluate(query, world.heads(), 0)) == [11]
    assert times(world.evaluate(query, world.heads(), 0, journal_pos=before)) == [10, 11]


def test_aggregates_skip_nulls_and_answer_without_rows() -> None:
    world = world_with()
    counts = (Aggregate("count", None), Aggregate("count", PPM), Aggregate("sum", PPM), Aggregate("max", PPM))
    assert world.evaluate(Query(VALID, (), aggregates=counts), world.heads(), 0) == Counter([(0, 0, None, None)])
    send(world, (1, 1.5, 10), (1, None, 11), (2, 4.0, 12))
    by_room = Query(VALID, (ROOM,), aggregates=counts)
    assert world.evaluate(by_room, world.heads(), 0) == Counter([("north", 2, 1, 1.5, 1.5), ("south", 1, 1, 4.0, 4.0)])


def test_the_databases_own_log_can_be_taken_over() -> None:
    world = world_with()
    send(world, (1, 1.0, 10))
    log = pa.table(
        {
            "_vid": pa.array([1, 0], pa.int32()),
            "ts": pa.array([7 * S, 8 * S], pa.timestamp("us", "UTC")),
            "ppm": [2.0, 3.0],
        }
    )
    world.load_log("probes", log)
    rows = world.evaluate(Query(VALID, (ID, PPM, TS)), world.heads(), 0)
    assert rows == Counter([(2, 2.0, 7 * S), (1, 3.0, 8 * S)])


def test_answers_are_compared_as_multisets_with_a_tolerance_for_floats() -> None:
    table = pa.table(
        {"n": [1, 1, 2], "x": [0.1 + 0.2, float("nan"), None], "ts": pa.array([5, 6, 7], pa.timestamp("us", "UTC"))}
    )
    found = rows_of(table)
    assert difference(Counter([(1, 0.3, 5), (1, "NaN", 6), (2, None, 7)]), found) is None
    told = difference(Counter([(1, 0.3001, 5), (1, "NaN", 6), (2, None, 7)]), found)
    assert told is not None and "missing (1)" in told and "unexpected (1)" in told
    assert difference(Counter({(1,): 2}), Counter({(1,): 1})) is not None


@pytest.mark.parametrize("text", ["x", "it's", "a\\%b"])
def test_texts_are_written_so_that_both_dialects_read_them_back(text: str) -> None:
    query = Query(VALID, (TS,), op("eq", ROOM, Const(text, "TEXT")))
    for dialect, sql in (("postgres", query.select_sql()), ("spark", check_sql_of(query))):
        literals = [literal.name for literal in sqlglot.parse_one(sql, dialect=dialect).find_all(sqlglot.exp.Literal)]
        assert text in literals


def check_sql_of(query: Query) -> str:
    world = world_with()
    world.create_query("q", query, 0)
    return check_sql(world, ["q"], world.heads(), world.position, 0)


def test_sparks_rows_are_read_back_as_they_were() -> None:
    rows = [("a", '{"c0":1,"c1":"$NaN"}'), ("a", '{"c0":null,"c1":"NaN"}'), ("a", '{"c0":1,"c1":"$NaN"}')]
    assert answers(["a", "b"], rows) == {"a": Counter({(1, "NaN"): 2, (None, "NaN"): 1}), "b": Counter()}


@settings(max_examples=25, deadline=None)
@given(scripts(max_steps=12, aggregates=True))
def test_every_invented_story_can_be_told_to_the_oracle(story: list[object]) -> None:
    play(story)


def test_a_seed_tells_the_same_story_every_time() -> None:
    assert seeded_script(7) == seeded_script(7) != seeded_script(8)
    asked = sum(play(seeded_script(seed, steps=40)) for seed in range(5))
    assert asked > 50, "stories without answers test nothing"


def play(story: list[object]) -> int:
    """Tell a story to the model, check its texts parse where sqlglot can, and count the rows of all answers."""
    world, now_us, rows = World(), EPOCH_US, 0
    for command in story:
        if isinstance(command, Advance):
            now_us += command.us
        elif isinstance(command, Cycle):
            names = world.live_queries(world.position)
            for name in names:
                rows += world.answer(name, world.heads(), world.position, now_us).total()
            if names:
                sqlglot.parse_one(check_sql(world, names, world.heads(), world.position, now_us), dialect="spark")
        else:
            command.apply(world, now_us)  # type: ignore[attr-defined]
            if isinstance(command, CreateQuery):
                assert command.sql.startswith("CREATE QUERY")
            elif isinstance(command, Push):
                assert command.readings
    return rows


def test_a_column_is_spelled_as_the_query_likes() -> None:
    hot = op("gt", PPM, Const(-2.5, "DOUBLE"))
    texts = {
        style: Query(VALID, (Col("room", "TEXT", "static"), PPM), hot, LastRows(2), (), style).select_sql()
        for style in ("full", "alias", "bare")
    }  # type: ignore[arg-type]
    assert texts["full"] == (
        "SELECT s.room AS c0, s.reading.ppm AS c1 FROM probes s WHERE (s.reading.ppm > (-2.5)) BEGIN (LAST 2 ROWS)"
    )
    assert "s.ppm" in texts["alias"] and " s" not in texts["bare"].replace(" s.", "")
