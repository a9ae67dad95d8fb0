"""Standing aggregations: invoked, subscribed to, restarted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.operators.aggregate import answer, payload
from penstock.operators.aggregate import state as slice_state
from penstock.operators.aggregate.answer import LARGE_ROWS, AggregateAt
from penstock.operators.aggregate.family import FamilyStore
from penstock.settings import Settings
from penstock.sql.parse import parse_select
from penstock.sql.plan import AggregatePlan, SparkPlan, plan_from_json, plan_to_json
from penstock.sql.planning.planner import plan_query
from tests.support.new_query import new_query
from tests.support.pipe import Pipe
from tests.support.watched import watched


def rows(pipe: Pipe, name: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = pipe.db.standing.invoke(name).table.to_pylist()
    return answer


def test_an_average_per_place_follows_the_rows_and_survives_a_restart(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY means AS SELECT place, COUNT(*) AS n, SUM(value) AS s, AVG(value) AS m, MIN(value) AS low,"
        " MAX(value) AS high FROM probes GROUP BY place BEGIN (NOW - 10 SECONDS) END (NOW)"
    )
    definition = pipe.db.catalog.state.queries["means"]
    assert isinstance(plan_from_json(definition.plan), AggregatePlan)
    pipe.push(1.0, 2.0, 6.0)
    pipe.push(5.0, sensor=2)
    pipe.engine.drain()
    expected = [
        {"place": "north", "n": 3, "s": 9.0, "m": 3.0, "low": 1.0, "high": 6.0},
        {"place": "south", "n": 1, "s": 5.0, "m": 5.0, "low": 5.0, "high": 5.0},
    ]
    assert rows(pipe, "means") == expected
    pipe.restart()
    assert rows(pipe, "means") == expected
    pipe.clock.advance(5_000_000)
    pipe.push(10.0)
    pipe.engine.drain()
    assert rows(pipe, "means")[0] == {"place": "north", "n": 4, "s": 19.0, "m": 4.75, "low": 1.0, "high": 10.0}
    pipe.clock.advance(7_000_000)
    pipe.engine.drain()
    assert rows(pipe, "means") == [{"place": "north", "n": 1, "s": 10.0, "m": 10.0, "low": 10.0, "high": 10.0}]


def test_a_subscriber_gets_each_new_value_and_with_changes_the_old_one_too(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute("CREATE QUERY n AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)")
    pipe.engine.drain()
    plain, changes = pipe.db.subscribe("n"), pipe.db.subscribe("n", changes=True)
    for subscription in (plain, changes):
        event = subscription.next(60.0)
        assert event is not None and event.table.column("n").to_pylist() == [0]
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    event = plain.next(60.0)
    assert event is not None and event.table.to_pylist() == [{"n": 2}]
    event = changes.next(60.0)
    assert event is not None and event.table.to_pylist() == [{"op": "-", "n": 0}, {"op": "+", "n": 2}]


def test_an_aggregation_whose_groups_take_too_much_fails_by_name_and_others_go_on(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(slices_memory_mb=1)
    pipe.probes()
    window = "BEGIN (NOW - 10 SECONDS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY many AS SELECT value, COUNT(*) AS n FROM probes GROUP BY value {window}")
    pipe.db.execute(f"CREATE QUERY all_of_them AS SELECT COUNT(*) AS n FROM probes {window}")
    pipe.engine.drain()
    following = pipe.db.subscribe("all_of_them")
    assert following.next(60.0) is not None
    pipe.push(*(float(i) for i in range(60_000)))
    pipe.engine.drain()
    with pytest.raises(PenstockError) as refused:
        pipe.db.standing.invoke("many")
    assert refused.value.condition == "over_budget" and "slices_memory_mb" in str(refused.value.hint)
    assert rows(pipe, "all_of_them") == [{"n": 60_000}]
    for count in (60_001, 60_002):
        pipe.push(0.5)
        pipe.engine.drain()
        event = following.next(60.0)
        assert event is not None
        assert rows(pipe, "all_of_them") == [{"n": count}]
        states = {query["name"]: query["state"] for query in pipe.db.queries()}
        assert states == {"many": "FAILED", "all_of_them": "RUNNING"}
    pipe.db.execute("DROP QUERY many")
    pipe.engine.drain()
    assert pipe.db.standing.store.slices.nbytes < 100_000


def test_given_up_while_its_log_is_sliced_a_query_fails_and_does_not_begin_again(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY n AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)")
    pipe.push(*(float(i) for i in range(50)))
    pipe.engine.drain()
    calls: list[int] = []

    def full(_: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            with pipe.db.standing.locked() as store:
                store.limit_slices(Settings(slices_memory_mb=0, exact_values_max=1000))

    monkeypatch.setattr(answer, "READ_ROWS", 10)
    with pipe.db.standing.locked() as store:
        (family,) = store.slices.families.values()
        family.empty()
    with watched(FamilyStore.put, tell=full), pytest.raises(PenstockError) as refused:
        rows(pipe, "n")
    assert refused.value.condition == "over_budget" and len(calls) == 2
    pipe.db.execute("ALTER QUERY n PAUSE")
    pipe.db.execute("ALTER QUERY n RESUME")
    pipe.engine.drain()
    assert rows(pipe, "n") == [{"n": 50}]


def test_cells_that_are_too_many_for_a_snapshot_are_sliced_again_after_a_restart(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_state, "SNAPSHOT_CELLS", 10)
    pipe = pipes()
    pipe.probes()
    window = "BEGIN (NOW - 10 SECONDS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY many AS SELECT value, COUNT(*) AS n FROM probes GROUP BY value {window}")
    pipe.db.execute(f"CREATE QUERY few AS SELECT place, COUNT(*) AS n FROM probes GROUP BY place {window}")
    pipe.db.execute("CREATE QUERY latched AS SELECT value, COUNT(*) AS n FROM probes GROUP BY value, LATCH")
    pipe.push(*(float(i % 30) for i in range(50)))
    pipe.engine.drain()
    before = {name: rows(pipe, name) for name in ("many", "few", "latched")}
    assert len(before["many"]) == len(before["latched"]) == 30
    with pipe.db.standing.locked() as store:
        kept = sorted(payload.from_bytes(row[4] or b"").table.num_rows for row in store.slices.snapshot())
    assert kept == [1, 30]
    pipe.db.standing.write_snapshot()
    pipe.restart()
    assert {name: rows(pipe, name) for name in before} == before


def test_pages_of_a_large_answer_are_parts_of_it_and_it_is_found_once(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    asked = "SELECT value, COUNT(*) AS n FROM probes GROUP BY value BEGIN (NOW - 10 SECONDS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY many AS {asked}")
    pipe.push(*(float(i % LARGE_ROWS) for i in range(LARGE_ROWS + 5)))
    pipe.engine.drain()
    whole = pipe.db.invoke("many")
    calls: list[object] = []
    with watched(AggregateAt._compute, tell=calls.append):
        pages = [
            pipe.db.invoke("many", whole.cycle, 3000, offset).table for offset in range(0, LARGE_ROWS + 3000, 3000)
        ]
        following = [pipe.db.subscribe("many").next(60.0) for _ in range(2)]
    assert calls == []
    assert [page.num_rows for page in pages] == [3000, 3000, 3000, 1000, 0]
    assert pa.concat_tables(pages).equals(whole.table)
    assert all(event is not None and event.table.equals(whole.table) for event in following)
    assert pipe.db.invoke("many", offset=LARGE_ROWS - 1).table.equals(whole.table.slice(LARGE_ROWS - 1))
    pipe.push(1.0)
    pipe.engine.drain()
    assert pipe.db.invoke("many", limit=1, offset=1).table.to_pylist() == [{"value": 1.0, "n": 3}]
    assert pipe.db.invoke("many", whole.cycle, 1, 1).table.to_pylist() == [{"value": 1.0, "n": 2}]


def test_an_answer_that_was_asked_for_before_its_query_was_over_budget_fails_instead_of_reading_everything_again(
    pipes: Callable[..., Pipe],
) -> None:
    pipe = pipes(slices_memory_mb=1, answer_read_max_rows=100)
    pipe.probes()
    window = "BEGIN (NOW - 10 SECONDS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY many AS SELECT value, COUNT(*) AS n FROM probes GROUP BY value {window}")
    pipe.push(*(float(i) for i in range(1000)))
    pipe.engine.drain()
    held = pipe.db.standing.held("many")
    pipe.push(*(float(i) for i in range(1000, 60_000)))
    pipe.engine.drain()
    assert pipe.db.query("many")["state"] == "FAILED"
    with pytest.raises(PenstockError) as refused:
        held.select(None, 1_000_000)
    assert refused.value.condition == "over_budget"
    assert pipe.engine.tasks_run == 0 and pipe.db.query("many")["memory"] < 1000


def test_long_texts_count_in_the_memory_of_a_query_and_of_slices(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(slices_memory_mb=1)
    pipe.db.execute("CREATE TABLE logs (id INT PRIMARY KEY, line STREAM (said TEXT))")
    pipe.db.execute("INSERT INTO logs VALUES (1, NULL)")
    pipe.db.execute("CREATE QUERY newest AS SELECT LAST(said) AS said FROM logs BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.push("logs", [{"id": 1, "said": "x" * 400_000}])
    pipe.engine.drain()
    assert 400_000 < pipe.db.query("newest")["memory"] < 1_000_000
    pipe.clock.advance(2_000_000)
    pipe.db.push("logs", [{"id": 1, "said": "y" * 700_000}])
    pipe.engine.drain()
    with pytest.raises(PenstockError) as refused:
        pipe.db.standing.invoke("newest")
    assert refused.value.condition == "over_budget"


def test_explain_tells_slices_sharing_and_memory(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    for number in (1, 2):
        window = f"BEGIN (NOW - {number} SECONDS) END (NOW)"
        pipe.db.execute(f"CREATE QUERY q{number} AS SELECT place, AVG(value) AS m FROM probes GROUP BY place {window}")
    pipe.push(1.0)
    pipe.engine.drain()
    told = "\n".join(pipe.db.execute("EXPLAIN q1").table.column("plan").to_pylist())
    assert 'slices of the stream of "probes", exact' in told
    assert "  slices: 1s wide, 1 partial of 1 cell, 1 group" in told, told
    assert "shared by 2 queries" in told


def test_an_aggregation_over_a_window_that_no_kernel_covers_says_why(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.engine.drain()
    told = pipe.db.execute("EXPLAIN SELECT COUNT(DISTINCT value, place) FROM probes").table.column("plan").to_pylist()
    assert told[0].startswith("Spark SQL")


def test_values_that_are_kept_one_by_one_have_a_limit_and_the_refusal_names_the_way_out(
    pipes: Callable[..., Pipe],
) -> None:
    pipe = pipes(exact_values_max=100)
    pipe.probes()
    window = "BEGIN (NOW - 10 SECONDS) END (NOW)"
    pipe.db.execute(f"CREATE QUERY middle AS SELECT MEDIAN(value) AS m FROM probes {window}")
    pipe.db.execute(f"CREATE QUERY kinds AS SELECT COUNT(DISTINCT value) AS n FROM probes {window}")
    pipe.push(*([1.0, 2.0, 4.0] * 30))
    pipe.engine.drain()
    assert rows(pipe, "middle") == [{"m": 2.0}] and rows(pipe, "kinds") == [{"n": 3}]
    pipe.push(*([1.0, 2.0, 4.0] * 30))
    pipe.engine.drain()
    with pytest.raises(PenstockError) as refused:
        pipe.db.standing.invoke("middle")
    assert refused.value.condition == "over_budget"
    assert "APPROX_PERCENTILE" in str(refused.value.hint) and "exact_values_max" in str(refused.value.hint)
    # A value that is there already takes no more room.
    assert rows(pipe, "kinds") == [{"n": 3}]


def test_rows_come_by_key_and_are_counted_across_restarts(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute("CREATE QUERY n AS SELECT place, COUNT(*) AS n FROM probes WHERE value > 0 GROUP BY place")
    pipe.push(1.0, -1.0, sensor=2)
    pipe.push(1.0, 2.0)
    pipe.engine.drain()

    def told() -> tuple[list[dict[str, Any]], list[Any]]:
        return rows(pipe, "n"), pipe.db.execute("SHOW QUERIES").table.column("matched").to_pylist()

    expected = [{"place": "north", "n": 2}, {"place": "south", "n": 1}], [3]
    assert told() == expected
    pipe.db.standing.commits.write_snapshot(pipe.db.standing.store.to_snapshot())
    pipe.restart()
    assert told() == expected
    pipe.db.execute("ALTER QUERY n SET BEGIN (NOW - 1 HOUR)")
    pipe.push(5.0)
    pipe.engine.drain()
    assert told() == ([{"place": "north", "n": 3}, {"place": "south", "n": 1}], [4])


def test_aggregates_with_windows_of_their_own(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY two AS SELECT place, AVG(value, 5 SECONDS) AS short, COUNT(*, 1 MINUTE) AS n,"
        " COUNT(DISTINCT value, 1 MINUTE) AS kinds FROM probes GROUP BY place"
    )
    pipe.push(1.0, 2.0)
    pipe.push(7.0, sensor=2)
    pipe.clock.advance(5_000_000)
    pipe.push(7.0, sensor=2)
    pipe.engine.drain()
    # Five seconds ago to the microsecond is inside, a millisecond earlier is not.
    assert rows(pipe, "two") == [
        {"place": "north", "short": None, "n": 2, "kinds": 2},
        {"place": "south", "short": 7.0, "n": 2, "kinds": 1},
    ]
    told = "\n".join(pipe.db.execute("EXPLAIN two").table.column("plan").to_pylist())
    assert "window: BEGIN (NOW - 1m) END (NOW)" in told and "window of avg(value): the last 5s of it" in told, told


def test_several_windows_and_averages_over_time_can_be_asked_for_once(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.push(1.0, 2.0)
    pipe.push(7.0, sensor=2)
    pipe.clock.advance(5_000_000)
    pipe.push(9.0, sensor=2)
    pipe.engine.drain()

    def once(question: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in pipe.db.execute(question).table.to_pylist()]

    assert once("SELECT AVG(value, 5 SECONDS), COUNT(*) FROM probes") == [(9.0, 4)]
    assert once("SELECT AVG(value, 1 SECOND), AVG(value, 6 SECONDS) FROM probes") == [(9.0, 4.75)]
    by_place = "SELECT place, AVG(value, 1 SECOND) AS now, COUNT(*, 1 MINUTE) AS n FROM probes GROUP BY place"
    assert once(f"{by_place} ORDER BY n, place DESC LIMIT 1") == [("south", 9.0, 2)]
    assert once(by_place) == [("north", None, 2), ("south", 9.0, 2)]
    assert once("SELECT SUM(value, 1 SECOND) FROM probes BEGIN (NOW - 1 HOUR) END (NOW - 2 SECONDS)") == [(None,)]
    # 7 stood for five seconds and a millisecond, 9 for no time yet.
    assert once("SELECT TWA(value) FROM probes WHERE id = 2 BEGIN (NOW - 1 MINUTE) END (NOW)") == [(7.0,)]
    assert once("SELECT APPROX_COUNT(*, 0.01, 1 SECOND) AS a, APPROX_COUNT(*) AS b FROM probes WITH ERROR") == [
        (1, 4, 0.0, 0.0)
    ]
    told = pipe.db.execute(f"EXPLAIN ANALYZE {by_place}").table.column("plan").to_pylist()
    assert told[0] == 'slices of the stream of "probes", exact' and "rows: 2" in told, told
    assert any("asked once: rows of the log are read" in line and "no Spark job" in line for line in told), told
    (told,) = (
        line
        for line in pipe.db.execute("EXPLAIN SELECT AVG(value, 5 SECONDS) FROM probes").table.column("plan").to_pylist()
        if "window:" in line
    )
    assert told.strip() == "window: BEGIN (NOW - 5s) END (NOW)"


@pytest.mark.parametrize(
    "question",
    [
        "SELECT AVG(a.value, 5 SECONDS), COUNT(*) FROM probes a, probes b WHERE a.id = b.id",
        "SELECT TWA(value) FROM (SELECT value FROM probes) p",
    ],
)
def test_over_more_than_one_stream_they_are_refused(question: str, pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"EXPLAIN {question}")
    assert refused.value.condition == "not_supported" and "CREATE QUERY" in str(refused.value.hint)


def test_texts_and_truths_have_aggregates_in_the_cycle_too(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute(
        "CREATE TABLE doors (door TEXT PRIMARY KEY, r STREAM (state TEXT, locked BOOLEAN, tags ARRAY<TEXT>))"
        " WITH (time = 'valid', out_of_order = 'accept'); INSERT INTO doors VALUES ('a', NULL), ('b', NULL)"
    )
    calls = (
        "FIRST(state) AS first, LAST(state) AS last, LAST(tags) AS tags, COUNT_IF(locked) AS locked,"
        " BOOL_OR(locked) AS any, BOOL_AND(locked) AS every"
    )
    pipe.db.execute(f"CREATE QUERY q AS SELECT door, {calls} FROM doors GROUP BY door BEGIN (NOW - 1 MINUTE) END (NOW)")
    pipe.db.execute("CREATE QUERY ever AS SELECT door, LAST(state) AS state FROM doors GROUP BY door, LATCH")
    for door, second, state, locked, tags in [
        ("a", 20, "open", False, ["x"]),
        ("a", 30, None, True, None),
        ("b", 40, "shut", None, []),
        ("a", 25, "ajar", True, ["late"]),
        ("a", 19, "new", None, ["z"]),
    ]:
        ts = f"2025-11-15T00:00:{second}Z"
        pipe.db.push("doors", [{"door": door, "ts": ts, "state": state, "locked": locked, "tags": tags}])
        pipe.engine.drain()
    pipe.restart()
    names = ("door", "first", "last", "tags", "locked", "any", "every")
    assert [tuple(row[n] for n in names) for row in rows(pipe, "q")] == [
        ("a", "new", None, None, 2, True, False),
        ("b", "shut", "shut", [], 0, None, None),
    ]
    assert rows(pipe, "ever") == [{"door": "a", "state": None}, {"door": "b", "state": "shut"}]


@pytest.mark.parametrize("window", ["BEGIN (NOW - 1 HOUR) END (NOW)", "BEGIN (LAST 5 ROWS)"])
@pytest.mark.parametrize("keys", ["tags", "place", "door, place"])
def test_groups_of_arrays_and_structs_are_left_to_spark(pipe: Pipe, keys: str, window: str) -> None:
    pipe.db.execute(
        "CREATE TABLE doors (door TEXT PRIMARY KEY, r STREAM (n INT, tags ARRAY<TEXT>, place STRUCT<x: INT, y: INT>))"
    )
    pipe.engine.drain()
    text = f"SELECT {keys}, SUM(n) AS n FROM doors GROUP BY {keys} {window}"
    plan = plan_query(parse_select(text), pipe.db.catalog.state, standing=True, joins=True)
    assert isinstance(plan, SparkPlan) and plan.reason == "GROUP BY an array or a struct runs as Spark SQL"


def test_a_plan_that_cannot_be_sliced_fails_its_own_query(pipe: Pipe) -> None:
    """As an older version stored one, with an array among its keys."""
    pipe.db.execute("CREATE TABLE doors (door TEXT PRIMARY KEY, r STREAM (n INT, tags ARRAY<TEXT>))")
    pipe.db.execute("INSERT INTO doors VALUES ('a', NULL); CREATE QUERY good AS SELECT SUM(n) AS n FROM doors")
    asked = parse_select("SELECT n AS tags, SUM(n) AS n FROM doors GROUP BY doors.r.n")
    plan = plan_to_json(plan_query(asked, pipe.db.catalog.state, standing=True, joins=True))
    plan["keys"][0] |= {"column": "tags", "type": "ARRAY<TEXT>"}
    plan["outputs"][0] = ["tags", "ARRAY<TEXT>", {**plan["outputs"][0][2], "type": "ARRAY<TEXT>"}]
    text = "SELECT tags, SUM(n) AS n FROM doors GROUP BY tags"
    pipe.db.catalog.create_queries([new_query("bad", text, plan, ("doors",))])
    pipe.engine.drain()
    pipe.db.push("doors", [{"door": "a", "n": 3, "tags": ["x"]}])
    pipe.engine.drain()
    assert rows(pipe, "good") == [{"n": 3}]
    assert pipe.db.query("bad")["state"] == "FAILED"
    pipe.db.execute("DROP QUERY bad")
    pipe.db.push("doors", [{"door": "a", "n": 4, "tags": ["x"]}])
    pipe.engine.drain()
    assert rows(pipe, "good") == [{"n": 7}]


def test_the_newest_rows_of_each_sensor_are_aggregated_when_asked_for(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY q AS SELECT place, SUM(value) AS s FROM probes GROUP BY place BEGIN (LAST 2 ROWS PER SENSOR)"
    )
    pipe.db.execute("CREATE QUERY all_of_them AS SELECT COUNT(*) AS n, MAX(value) AS m FROM probes BEGIN (LAST 3 ROWS)")
    pipe.engine.drain()
    assert rows(pipe, "q") == [] and rows(pipe, "all_of_them") == [{"n": 0, "m": None}]
    pipe.push(1.0, 2.0, 4.0)
    pipe.push(8.0, sensor=2)
    pipe.engine.drain()
    expected = [{"place": "north", "s": 6.0}, {"place": "south", "s": 8.0}]
    assert rows(pipe, "q") == expected and rows(pipe, "all_of_them") == [{"n": 3, "m": 8.0}]
    pipe.restart()
    assert rows(pipe, "q") == expected
    told = "\n".join(pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist())
    assert "the newest rows are read on request" in told


def test_a_value_that_is_reported_on_change_weighs_as_long_as_it_stood(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute("CREATE QUERY open AS SELECT TWA(value) AS share FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)")
    pipe.push(1.0)
    pipe.clock.advance(2_999_000)
    pipe.push(0.0)
    pipe.clock.advance(1_000_000)
    pipe.engine.drain()
    assert rows(pipe, "open") == [{"share": 0.75}]
    pipe.restart()
    assert rows(pipe, "open")[0]["share"] == pytest.approx(0.75, abs=1e-5)  # time goes on a little
    once = pipe.db.execute(
        "SELECT TWA(value) AS share FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)"
    ).table.to_pylist()
    assert once[0]["share"] == pytest.approx(0.75, abs=1e-5)
