"""User functions behind other conditions: what EXPLAIN ANALYZE says, for selections, below aggregates and at inputs of joins."""

from __future__ import annotations

import pytest

from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
ODD = "CREATE FUNCTION odd(x DOUBLE) RETURNS BOOLEAN LANGUAGE python AS $$ x % 2 == 1 $$"


def said(pipe: Pipe, name: str) -> dict[str, list[str]]:
    """By condition the figures that do not depend on the machine: calls, saved, kept, switches."""
    lines = [row["plan"] for row in pipe.db.execute(f"EXPLAIN ANALYZE {name}").table.to_pylist()]
    heading = [n for n, line in enumerate(lines) if line.startswith("conditions that cost much")]
    if not heading:
        return {}
    found = {}
    for line in lines[heading[0] + 1 :]:
        condition, _, figures = line.strip().partition(": ")
        calls, saved, _, kept, switches = figures.split(", ")
        found[condition] = [calls, saved, kept, switches]
    return found


@pytest.fixture
def probes(pipe: Pipe) -> Pipe:
    pipe.probes()
    pipe.db.execute(ODD)
    return pipe


def test_explain_analyze_counts_the_calls_of_a_selection_and_those_that_were_saved(probes: Pipe) -> None:
    probes.db.execute(f"CREATE QUERY some AS SELECT value FROM probes WHERE odd(value) AND value > 94 {WINDOW}")
    probes.db.execute(f"CREATE QUERY none AS SELECT value FROM probes WHERE value > 94 {WINDOW}")
    probes.engine.drain()
    probes.push(*map(float, range(100)))
    probes.engine.drain()
    assert said(probes, "some") == {
        "odd(value)": ["5 calls", "95 saved (95.0 %)", "kept 60.0 %", "0 switches of order"]
    }
    assert said(probes, "none") == {}
    assert probes.answer("some") == [95.0, 97.0, 99.0]
    probes.push(101.0)
    probes.engine.drain()
    assert said(probes, "some")["odd(value)"][0] == "6 calls"


def test_costly_built_in_functions_below_an_aggregate_are_counted_too(probes: Pipe) -> None:
    asked = f"SELECT COUNT(*) AS n FROM probes WHERE CAST(value AS TEXT) LIKE '9%' AND value > 50 {WINDOW}"
    probes.db.execute(f"CREATE QUERY total AS {asked}")
    probes.engine.drain()
    probes.push(*map(float, range(100)))
    probes.engine.drain()
    assert probes.answer("total", "n") == [10]
    (figures,) = said(probes, "total").values()
    assert figures == ["49 calls", "51 saved (51.0 %)", "kept 20.4 %", "0 switches of order"]


def test_the_input_of_a_join_calls_its_function_on_what_the_input_leaves(probes: Pipe) -> None:
    probes.db.execute(
        "CREATE QUERY pairs AS SELECT a.value AS value, b.value AS other FROM probes a, probes b WINDOW = 1 SECOND"
        f" WHERE a.id = b.id AND a.value = b.value AND odd(a.value) AND a.value > 94 {WINDOW}"
    )
    probes.engine.drain()
    probes.push(*map(float, range(100)))
    probes.engine.drain()
    assert probes.answer("pairs") == [95.0, 97.0, 99.0]
    assert said(probes, "pairs") == {
        "odd(value)": ["5 calls", "95 saved (95.0 %)", "kept 60.0 %", "0 switches of order"]
    }
