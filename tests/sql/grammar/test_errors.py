"""Whatever is typed: either it is understood, or one error points into the text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from penstock.errors import PenstockError
from penstock.sql.parse import parse_script
from tests.sql.world import PLANT, World, plant
from tests.support.examples import examples

QUESTIONS = [
    "SELECT s.reading.ppm, s.location FROM sensors s WHERE s.sensor_id IN (2, 4) AND s.reading.ppm > 35 "
    "BEGIN (NOW - 10 MINUTES) END (NOW) ORDER BY ppm LIMIT 3",
    "SELECT location, AVG(ppm) AS mean FROM sensors GROUP BY location HAVING COUNT(*) > 3",
    "CREATE QUERY q AS SELECT a.ppm FROM sensors a, loops b WINDOW(a, b) = 30 SECONDS WHERE similar(a.ppm, b.speed)",
    "UPDATE sensors SET location = 'x', lat = lat + 1 WHERE sensor_id = 3",
    "INSERT INTO sensors (sensor_id, location) VALUES (1, 'a'), (2, NULL)",
    "SELECT CASE WHEN ppm > 3 THEN 'a' ELSE 'b' END, date_trunc('hour', ts), ts + 5 MINUTES FROM sensors",
    "WITH h AS (SELECT ppm FROM sensors) SELECT MAX(ppm) - MIN(ppm) FROM h UNION ALL SELECT 1.5",
    PLANT,
]
WORLD = plant()


def _understood(world: World, text: str) -> bool:
    try:
        world.run(text)
    except PenstockError as failure:
        lines = text.split("\n")
        assert failure.message and failure.render()
        if failure.line is not None and failure.column is not None and failure.length is not None:
            assert 1 <= failure.line <= len(lines)
            assert 1 <= failure.column <= len(lines[failure.line - 1]) + 1
            assert failure.length >= 1
        return False
    return True


@settings(deadline=None, max_examples=examples(250))
@given(some.sampled_from(QUESTIONS), some.data())
def test_a_damaged_statement_is_understood_or_refused_with_a_caret_never_more(text: str, data: some.DataObject) -> None:
    words = text.split(" ")
    at = data.draw(some.integers(0, len(words) - 1))
    kind = data.draw(some.sampled_from(["cut", "drop", "double", "swap", "junk"]))
    if kind == "cut":
        damaged = text[: data.draw(some.integers(0, len(text)))]
    elif kind == "drop":
        damaged = " ".join(words[:at] + words[at + 1 :])
    elif kind == "double":
        damaged = " ".join([*words[:at], words[at], *words[at:]])
    elif kind == "swap":
        other = data.draw(some.integers(0, len(words) - 1))
        words[at], words[other] = words[other], words[at]
        damaged = " ".join(words)
    else:
        junk = data.draw(
            some.sampled_from(["(", ")", "'", '"', "$$", ",", ".", "SELECT", "::", "*", "é", "{", ";", ":x"])
        )
        damaged = " ".join([*words[:at], junk, *words[at:]])
    _understood(plant(), damaged)


@pytest.mark.parametrize("text", QUESTIONS[:-1])
def test_the_undamaged_statements_are_understood(text: str) -> None:
    assert _understood(plant(), text)


@pytest.mark.parametrize(
    ("sql", "line", "column", "length"),
    [
        ("SELECT ppm\nFROM sensors\n  WHERE ppn > 3", 3, 9, 3),
        ("SELECT 1;\nSELECT ppn FROM sensors", 2, 8, 3),
        ("SELECT 'é', '😀', ppn FROM sensors", 1, 18, 3),
        ('SELECT "Ppm" FROM sensors', 1, 8, 5),
        ("SELECT s . ppn FROM sensors s", 1, 12, 3),
        ("-- a comment\nSELECT /* here */ ppn FROM sensors", 2, 19, 3),
    ],
)
def test_a_caret_points_into_the_original_text(sql: str, line: int, column: int, length: int, world: World) -> None:
    with pytest.raises(PenstockError) as failure:
        world.run(sql)
    assert (failure.value.line, failure.value.column, failure.value.length) == (line, column, length)


def test_an_error_of_the_catalog_can_be_pointed_at_the_statements_name() -> None:
    (statement,) = parse_script("DROP TABLE IF EXISTS nowhere CASCADE")
    failure = statement.point(PenstockError("table_not_found", "gone"))
    assert (failure.column, failure.length) == (22, 7)


def test_a_thousand_conditions_in_a_row_are_no_problem(world: World) -> None:
    conditions = " AND ".join(f"ppm <> {i}" for i in range(1000))
    plan = world.select(f"SELECT ppm FROM sensors WHERE {conditions}")
    assert plan.stream_predicate is not None


def test_absurd_nesting_is_refused_and_not_a_crash(world: World) -> None:
    with pytest.raises(PenstockError) as failure:
        world.run("SELECT " + "(" * 5000 + "1" + ")" * 5000)
    assert failure.value.condition == "syntax_error"
