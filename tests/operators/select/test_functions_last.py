"""User functions behind other conditions: what EXPLAIN ANALYZE says, for selections, below aggregates and at inputs of joins."""

from __future__ import annotations

from itertools import takewhile

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
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
    for line in takewhile(lambda line: line.startswith("  "), lines[heading[0] + 1 :]):
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


def test_a_call_that_raises_fails_the_queries_whose_row_depends_on_it_and_no_others(probes: Pipe) -> None:
    probes.db.execute("CREATE FUNCTION inverse(v DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$ 1 / v $$")
    conditions = {
        "guarded": "inverse(value) > 0.2 AND value <> 0",
        "either": "inverse(value) > 0.2 OR value < 1",
        "elsewhere": "inverse(value) > 0.2 AND place = 'south'",
        "bare": "inverse(value) > 0.2",
        "both": "inverse(value) > 0.2 AND value < 1",
        "unless": "NOT (inverse(value) > 0.2)",
    }
    for name, condition in conditions.items():
        probes.db.execute(f"CREATE QUERY {name} AS SELECT value FROM probes WHERE {condition} {WINDOW}")
    probes.engine.drain()
    probes.push(2.0, 0.0, 8.0)
    probes.engine.drain()
    assert {name: probes.answer(name) for name in ("guarded", "either", "elsewhere")} == {
        "guarded": [2.0],
        "either": [2.0, 0.0],
        "elsewhere": [],
    }
    for name in ("bare", "both", "unless"):
        with pytest.raises(PenstockError, match="ZeroDivisionError"):
            probes.answer(name)
    probes.restart()
    probes.push(0.0, 3.0)
    probes.engine.drain()
    assert probes.answer("guarded") == [2.0, 3.0]
    probes.push(0.0, sensor=2)
    probes.engine.drain()
    with pytest.raises(PenstockError, match="ZeroDivisionError"):
        probes.answer("elsewhere")


def test_history_that_another_query_reaches_fails_only_that_one(probes: Pipe) -> None:
    probes.db.execute("CREATE FUNCTION inverse(v DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$ 1 / v $$")
    probes.push(0.0, 1.0)
    probes.clock.advance(60 * SECOND)
    probes.push(2.0, 3.0)
    probes.engine.drain()
    select = "SELECT value FROM probes WHERE inverse(value) > 0.2 BEGIN (NOW - {}) END (NOW)"
    probes.db.register([("far", select.format("1 HOUR")), ("near", select.format("1 SECOND"))])
    probes.engine.drain()
    assert probes.answer("near") == [2.0, 3.0]
    with pytest.raises(PenstockError, match="ZeroDivisionError"):
        probes.answer("far")
