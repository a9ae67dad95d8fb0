"""What the console's pages show, without a browser: newest readings, plans as boxes, history, states, charts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.answers.latest_readings import Latest
from penstock.clock import SECOND
from penstock.console.server_status import look_at, state_of, table_facts
from penstock.console.widgets.answer_view import Axes, cells, chart_of, guess
from penstock.console.widgets.plan_drawing import draw
from penstock.database.plan_graph import plan_graph
from penstock.database.status import Processes, log_sizes
from penstock.statements.descriptions import changes_of_query
from tests.support.pipe import Pipe

PLANT = """
CREATE TABLE plant (id INT PRIMARY KEY, room TEXT, x DOUBLE, y DOUBLE, reading STREAM (ppm DOUBLE, note TEXT))
  WITH (time = 'valid', out_of_order = 'accept');
INSERT INTO plant VALUES (1, 'cellar', 0, 1, NULL), (2, 'attic', 5, 2, NULL), (3, 'roof', 9, 3, NULL);
"""


@pytest.mark.parametrize("seed", range(5))
def test_the_newest_value_of_each_sensor_is_that_of_its_latest_time(pipe: Pipe, seed: int) -> None:
    chance = random.Random(seed)
    pipe.db.execute(PLANT)
    table = pipe.db.catalog_table("plant")
    latest = Latest(pipe.db.log.folder)
    current = pipe.db.catalog.state.rows(table.id).current()
    sids = dict(zip(current.column("id").to_pylist(), current.column("_sid").to_pylist(), strict=True))
    now_us = pipe.clock.now_us()
    newest: dict[int, tuple[int, int, float]] = {}
    for look in range(4):
        readings = []
        for place in range(chance.randrange(12)):
            at_us = now_us - chance.randrange(100) * SECOND
            reading: dict[str, Any] = {
                "id": chance.randint(1, 3),
                "ts": _iso(at_us),
                "ppm": chance.random(),
                "note": "",
            }
            readings.append(reading)
            known = newest.get(reading["id"])
            if known is None or (at_us, (look, place)) >= (known[0], (look, -1)):
                newest[reading["id"]] = (at_us, place, reading["ppm"])
        if readings:
            assert pipe.db.push("plant", readings).refused == ()
        recent = latest.look(table, pipe.db.catalog.state.rows(table.id).sids, pipe.db.log.head(table.id))
        expected = {sids[sensor]: ppm for sensor, (_, _, ppm) in newest.items()}
        assert {sid: values["ppm"] for sid, values in recent.values.items()} == expected
        for sensor, (at_us, _, ppm) in newest.items():
            assert recent.line("ppm", sids[sensor])[-1] == (at_us // SECOND, pytest.approx(ppm))


def test_sensors_stand_where_their_columns_say_with_what_they_last_said(pipe: Pipe) -> None:
    pipe.db.execute(PLANT)
    pipe.db.push("plant", [{"id": 2, "ts": _iso(pipe.clock.now_us()), "ppm": 7.5, "note": "fine"}])
    pipe.engine.drain()
    facts = table_facts(pipe.db, Latest(pipe.db.log.folder), pipe.db.catalog_table("plant"))
    assert (facts.count, facts.shown_field, facts.fields) == (3, "ppm", ("ppm", "note"))
    attic = facts.sensors[1]
    assert (attic.label, attic.place, attic.state) == ("attic", (5.0, 2.0), "live")
    assert attic.values == {"ppm": 7.5, "note": "fine"}
    assert [s.state for s in facts.sensors] == ["off", "live", "off"]


def test_a_sensor_whose_reading_is_in_the_log_is_not_silent_while_cycles_are_behind(pipe: Pipe) -> None:
    pipe.db.execute(PLANT)
    now_us = pipe.clock.now_us()
    pipe.db.push("plant", [{"id": 2, "ts": _iso(now_us), "ppm": 7.5, "note": "fine"}])
    facts = table_facts(pipe.db, Latest(pipe.db.log.folder), pipe.db.catalog_table("plant"))
    assert [(s.state, s.last_us) for s in facts.sensors] == [("off", None), ("live", now_us), ("off", None)]


@pytest.mark.parametrize(
    ("says", "last_s", "rate", "state"),
    [
        ("pushed", 5, 1.0, "live"),
        ("pushed", 31, 1.0, "silent"),
        ("pushed", 100, 0.02, "live"),  # it speaks every fifty seconds
        ("pushed", 300, 0.02, "silent"),
        ("pushed", None, 0.0, "off"),
        ("open", None, 0.0, "silent"),
        ("backing off", 1, 1.0, "failing"),
        ("hung", None, 0.0, "failing"),
        ("closed", 90, 0.0, "off"),
    ],
)
def test_silence_is_longer_than_a_sensor_usually_pauses(says: str, last_s: int | None, rate: float, state: str) -> None:
    now_us = 10_000 * SECOND
    assert state_of(says, None if last_s is None else now_us - last_s * SECOND, rate, now_us) == state


@pytest.mark.parametrize(
    ("sql", "titles"),
    [
        ("SELECT room, ppm FROM plant WHERE ppm > 5 AND x < 3", ["plant", "filter", "window", "q"]),
        ("SELECT room, ppm FROM plant", ["plant", "window", "q"]),
        ("SELECT room, AVG(ppm) AS a FROM plant GROUP BY room", ["plant", "slices", "window", "q"]),
        (
            "SELECT a.ppm FROM plant a, plant b DWINDOW(a, b) = 1 MINUTE WHERE a.id = b.id AND b.ppm > 3",
            ["plant a", "plant b", "filter", "window join", "window", "q"],
        ),
    ],
)
def test_a_plan_is_boxes_that_all_lead_to_the_answer(pipe: Pipe, sql: str, titles: list[str]) -> None:
    pipe.db.execute(PLANT)
    pipe.db.execute(f"CREATE QUERY q AS {sql}")
    graph = plan_graph(pipe.db.definition("q"), pipe.db.catalog.state)
    assert [box.title for box in graph.boxes] == titles
    reached = {len(graph.boxes) - 1}
    for source, target in reversed(graph.arrows):
        assert target in reached
        reached.add(source)
    assert reached == set(range(len(graph.boxes)))
    drawn = draw(graph, {graph.arrows[0]: "12/s"})
    assert drawn.count("<rect") == len(titles) and "12/s" in drawn


def test_what_is_drawn_cannot_be_markup(pipe: Pipe) -> None:
    pipe.db.execute(PLANT)
    pipe.db.execute("CREATE QUERY q AS SELECT room FROM plant WHERE note = '<script>'")
    assert "<script" not in draw(plan_graph(pipe.db.definition("q"), pipe.db.catalog.state), {})


def test_the_history_of_a_query_has_its_changes_and_not_those_of_its_namesake(pipe: Pipe) -> None:
    pipe.db.execute(PLANT)
    pipe.engine.drain()
    pipe.db.execute("CREATE QUERY q AS SELECT room, ppm FROM plant; COMMENT ON QUERY q IS 'first'; DROP QUERY q")
    pipe.db.execute("CREATE QUERY q AS SELECT ppm FROM plant BEGIN (NOW - 1 MINUTE) END (NOW)")
    pipe.db.execute("ALTER QUERY q SET BEGIN (NOW - 1 HOUR); COMMENT ON QUERY q IS 'second'; ALTER QUERY q PAUSE")
    definition = pipe.db.definition("q")
    found = changes_of_query(pipe.folder, definition.id, "q")
    assert [c.what for c in found] == ["registered", "window", "description", "paused"]
    assert found[1].detail.startswith("BEGIN (NOW - 1 HOUR)")
    assert found[2].detail == "second"


def test_the_footprint_names_this_process_and_the_size_of_each_log(pipe: Pipe) -> None:
    pipe.db.execute(PLANT)
    pipe.db.push("plant", [{"id": 1, "ts": _iso(pipe.clock.now_us()), "ppm": 1.0, "note": ""}])
    (size,) = log_sizes(pipe.db)
    assert (size.table, size.files, size.head - size.first, size.retention) == ("plant", 1, 1, None)
    assert size.bytes > 0 and size.oldest_us == size.newest_us
    assert Processes().look()[0].role == "server"


def test_a_chart_is_guessed_from_the_columns() -> None:
    times = pa.array(np.arange(6) * SECOND, pa.timestamp("us", tz="UTC"))
    series = pa.table({"probe_id": [1, 2, 1, 2, 1, 2], "ppm": [1.0, 2.0, 3.0, None, 5.0, 6.0], "ts": times})
    axes = guess(series)
    assert axes == Axes("time", "ts", ("ppm",), "probe_id")
    drawn = chart_of(series, axes)
    assert [(s["name"], [p[1] for p in s["data"]]) for s in drawn["series"]] == [
        ("1", [1.0, 3.0, 5.0]),
        ("2", [2.0, None, 6.0]),
    ]
    groups = pa.table({"room": ["cellar", "attic"], "peak": [3.0, 4.0]})
    assert guess(groups) == Axes("bar", "room", ("peak",))
    assert guess(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})) == Axes("scatter", "a", ("b",))
    assert guess(pa.table({"room": ["cellar"]})) is None


def test_a_cell_of_a_table_has_the_first_elements_of_a_long_array() -> None:
    column = pa.chunked_array([pa.array([[1, 2], None, list(range(1500))])])
    assert cells(column) == ["[1, 2]", None, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 1,500 elements]"]
    assert cells(pa.chunked_array([[1.0, None]])) == [1.0, None]


def _iso(us: int) -> str:
    from penstock.clock import format_timestamp

    return format_timestamp(us)


def test_a_look_shows_the_newest_rows_and_is_no_question(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY all_of_it AS SELECT id, value, ts FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    definition = pipe.db.definition("all_of_it")
    assert look_at(pipe.db, definition, 2) is None  # no cycle has taken it in
    for value in range(5):
        pipe.push(float(value))
    pipe.engine.drain()
    seen = look_at(pipe.db, definition, 2)
    assert seen is not None
    assert (seen.count, seen.rows.column("value").to_pylist()) == (5, [3.0, 4.0])
    assert seen.cycle == pipe.db.standing.store.cycle
    assert pipe.db.query("all_of_it")["invocations"] == 0
