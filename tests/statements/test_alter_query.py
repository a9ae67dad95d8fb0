"""ALTER QUERY with a window that cannot be: the caret stands in what was typed, not in the query's own text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import PenstockError
from tests.support.pipe import Pipe


@pytest.fixture
def pipe(pipes: Callable[..., Pipe]) -> Pipe:
    found = pipes(query_rows_max=1000)
    found.probes()
    found.db.execute("CREATE QUERY q AS\nSELECT value\nFROM probes\nBEGIN (NOW - 1 HOUR) END (NOW - 1 MINUTE)")
    found.db.execute("CREATE QUERY pairs AS SELECT a.value FROM probes a, probes b WINDOW(a,b) = 1 SECOND")
    return found


@pytest.mark.parametrize(
    ("change", "pointed_at"),
    [
        ("q SET BEGIN (NOW + 1 HOUR)", "(NOW + 1 HOUR)"),
        ("q SET BEGIN (NOW - 1 HOUR)\n  END (NOW + 1 HOUR)", "(NOW + 1 HOUR)"),
        ("q SET END (NOW + 2 HOURS)", "(NOW + 2 HOURS)"),
        ("q SET END (NOW - 2 HOURS)", "(NOW - 2 HOURS)"),
        ("q SET BEGIN (NOW)", "(NOW)"),  # the END that is kept lies before it
        ("q SET BEGIN (LAST 0 ROWS)", "(LAST 0 ROWS)"),
        ("q SET BEGIN (LAST 2000 ROWS)", "(LAST 2000 ROWS)"),
        ("q SET BEGIN (NOW - 1 MINUTE) FOR nobody", "nobody"),
        ("pairs SET BEGIN (NOW - 1 MINUTE) END (NOW) FOR c", "c"),
        ("pairs SET BEGIN (NOW + 1 MINUTE) FOR a", "(NOW + 1 MINUTE)"),
    ],
)
def test_the_caret_stands_in_the_statement(pipe: Pipe, change: str, pointed_at: str) -> None:
    before = pipe.db.catalog.state.queries
    text = f"SHOW QUERIES;\nALTER QUERY {change};"
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(text)
    failure = refused.value
    assert failure.sql == text and failure.line is not None and failure.column is not None
    line = text.split("\n")[failure.line - 1]
    assert line[failure.column - 1 :][: failure.length] == pointed_at
    assert pipe.db.catalog.state.queries == before


def test_a_stream_that_the_query_does_not_have_is_refused_with_those_it_has(pipe: Pipe) -> None:
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute("ALTER QUERY pairs SET BEGIN (NOW - 1 MINUTE) FOR nobody")
    assert refused.value.render().splitlines() == [
        'ERROR 42P01 table_not_found: there is no "nobody" in FROM that could have a window of its own',
        "  1 | ALTER QUERY pairs SET BEGIN (NOW - 1 MINUTE) FOR nobody",
        "    | " + " " * 49 + "^^^^^^",
        'hint: FROM has "a" and "b"',
    ]
