"""`bounded`: a query is refused if its state may grow without end, and fails if it takes more than it may."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from tests.support.pipe import BEGAN_US, Pipe

REFUSED = [
    # question, where the caret stands
    ("SELECT value FROM probes BEGIN ('2025-01-01') END (NOW)", "BEGIN ('2025-01-01') END (NOW)"),
    ("SELECT value FROM probes", "probes"),
    ("SELECT COUNT(*) AS n FROM probes BEGIN (START) END (NOW)", "BEGIN (START) END (NOW)"),
    (
        "SELECT a.value FROM probes a, doors b WINDOW(a, b) = 1 SECOND"
        " BEGIN (NOW - 1 HOUR) END (NOW) FOR a BEGIN (START) END (NOW) FOR b",
        "BEGIN (START) END (NOW) FOR b",
    ),
    ("SELECT place, value, COUNT(*) AS n FROM probes GROUP BY place, value, LATCH", "value, LATCH"),
    ("SELECT MIN(value) AS m, COUNT(DISTINCT value) AS n FROM probes GROUP BY place, LATCH", "COUNT(DISTINCT value)"),
]
TAKEN = [
    "SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)",
    "SELECT value FROM probes BEGIN (LAST 10 ROWS)",
    "SELECT value FROM kept BEGIN ('2025-01-01') END (NOW)",
    "SELECT value FROM probes BEGIN (START) END (START + 1 HOUR)",
    "SELECT value, COUNT(*) AS n FROM probes GROUP BY value BEGIN (NOW - 1 HOUR) END (NOW)",
    "SELECT place, MAX(value) AS m FROM probes GROUP BY place, LATCH",
    "SELECT a.value FROM probes a, doors b WINDOW(a, b) = 1 SECOND BEGIN (NOW - 1 HOUR) END (NOW)",
    "SELECT a.id, RESAMPLE(b.open, 3 SECONDS) AS open FROM probes a, doors b BEGIN (NOW - 1 HOUR) END (NOW)",
]


@pytest.fixture
def tables(pipe: Pipe) -> Pipe:
    pipe.probes("WITH (time = 'valid')")
    pipe.db.execute("CREATE TABLE doors (id INT PRIMARY KEY, r STREAM (open DOUBLE)) WITH (time = 'valid')")
    pipe.db.execute(
        "CREATE TABLE kept (id INT PRIMARY KEY, r STREAM (value DOUBLE)) WITH (time = 'valid', retention = '1 DAY')"
    )
    return pipe


@pytest.mark.parametrize(("question", "clause"), REFUSED, ids=[text for text, _ in REFUSED])
def test_a_state_that_may_grow_without_end_is_refused_at_the_clause(tables: Pipe, question: str, clause: str) -> None:
    statement = f"CREATE QUERY q WITH (bounded = true) AS {question}"
    with pytest.raises(PenstockError) as refused:
        tables.db.execute(statement)
    assert refused.value.condition == "unbounded_state" and refused.value.hint
    column = refused.value.column
    assert column is not None and statement[column - 1 :].startswith(clause.split(",")[0]), refused.value.render()
    tables.db.execute(f"CREATE QUERY q AS {question}")  # without the promise it may
    assert tables.db.query("q")["state_bound"].startswith("unbounded: ")


@pytest.mark.parametrize("question", TAKEN)
def test_a_bounded_state_is_taken_and_says_what_it_grows_with(tables: Pipe, question: str) -> None:
    tables.db.execute(f"CREATE QUERY q WITH (bounded = '64 MB') AS {question}")
    tables.restart()
    facts = tables.db.query("q")
    assert facts["state_bound"].startswith("bounded: ") and facts["state_limit"] == 64 << 20
    lines = tables.db.execute("EXPLAIN q").table.column("plan").to_pylist()
    assert f"  state: {facts['state_bound']}" in lines and any(line.startswith("  final: ") for line in lines)


def test_the_api_takes_the_option_and_says_no_as_well(tables: Pipe) -> None:
    asked = [
        {"name": "grows", "sql": "SELECT value FROM probes", "bounded": True},
        {"name": "fits", "sql": TAKEN[0], "bounded": "1 MB"},
        {"name": "odd", "sql": TAKEN[0], "bounded": "much"},
    ]
    said = tables.db.register(asked, "rest")
    conditions = [each["error"]["condition"] if each["error"] else None for each in said]
    assert conditions == ["unbounded_state", None, "invalid_option"]


def test_another_window_is_held_to_the_promise(tables: Pipe) -> None:
    tables.db.execute(f"CREATE QUERY q WITH (bounded = true) AS {TAKEN[0]}")
    with pytest.raises(PenstockError) as refused:
        tables.db.execute("ALTER QUERY q SET BEGIN (START)")
    assert refused.value.condition == "unbounded_state"
    tables.db.execute("ALTER QUERY q SET BEGIN (NOW - 2 HOURS)")


def test_a_full_window_that_would_not_fit_is_refused(tables: Pipe) -> None:
    rows = [{"id": 1, "ts": BEGAN_US + at * SECOND, "value": float(at)} for at in range(600)]
    tables.clock.advance(600 * SECOND)
    tables.db.push("probes", rows)
    counted = "AS SELECT value, COUNT(*) AS n FROM probes GROUP BY value BEGIN (NOW - 30 DAYS) END (NOW)"
    with pytest.raises(PenstockError) as refused:
        tables.db.execute(f"CREATE QUERY q WITH (bounded = '8 KB') {counted}")
    assert refused.value.condition == "over_budget" and refused.value.column == len("CREATE QUERY q WITH (") + 1
    tables.db.execute(f"CREATE QUERY q WITH (bounded = '64 MB') {counted}")


def test_a_query_that_takes_more_fails_and_harms_no_other(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.set_intervals(trim_cycles=1)
    pipe.probes()
    counted = "SELECT value, COUNT(*) AS n FROM probes GROUP BY value"
    pipe.db.execute(f"CREATE QUERY small WITH (bounded = '16 KB') AS {counted} BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute(f"CREATE QUERY large WITH (bounded = '64 MB') AS {counted}, place BEGIN (NOW - 1 HOUR) END (NOW)")
    for first in range(0, 3000, 500):
        pipe.push(*(float(v) for v in range(first, first + 500)))
        pipe.engine.drain()
    facts = pipe.db.query("small")
    assert facts["state"] == "FAILED" and "of its option bounded" in facts["error"]
    with pytest.raises(PenstockError) as failure:
        pipe.db.invoke("small")
    assert failure.value.condition == "over_budget" and failure.value.hint
    assert pipe.db.invoke("large").table.num_rows == 3000
