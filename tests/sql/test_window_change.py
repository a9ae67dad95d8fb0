from __future__ import annotations

import pytest

from penstock.sql.parse import parse_script, parse_select
from penstock.sql.statements import AlterQuery
from penstock.sql.window_clauses import retargeted


def _changed(text: str, change: str) -> str:
    (statement,) = parse_script(f"ALTER QUERY q SET {change}")
    assert isinstance(statement, AlterQuery)
    changed = retargeted(text, statement).text
    parse_select(changed)
    return changed


@pytest.mark.parametrize(
    ("text", "change", "changed"),
    [
        (
            "SELECT a FROM t BEGIN (NOW - 10 MINUTES) END (NOW - 1 MINUTE) ORDER BY a",
            "BEGIN (NOW - 1 HOUR)",
            "SELECT a FROM t\nBEGIN (NOW - 1 HOUR) END (NOW - 1 MINUTE)\nORDER BY a",
        ),
        ("SELECT a FROM t LIMIT 3", "BEGIN (NOW - 1 HOUR)", "SELECT a FROM t\nBEGIN (NOW - 1 HOUR) END (NOW)\nLIMIT 3"),
        (
            "SELECT a FROM (SELECT b FROM c BEGIN (NOW - 5 MINUTES) ORDER BY b) t",
            "BEGIN (START - 1 HOUR) END (NOW)",
            "SELECT a FROM (SELECT b FROM c BEGIN (NOW - 5 MINUTES) ORDER BY b) t\nBEGIN (START - 1 HOUR) END (NOW)",
        ),
        (
            "SELECT a FROM t BEGIN (LAST 10 ROWS)",
            "BEGIN (NOW - 1 HOUR)",
            "SELECT a FROM t\nBEGIN (NOW - 1 HOUR) END (NOW)",
        ),
        ("SELECT a FROM t BEGIN (NOW - 1 HOUR)", "BEGIN (LAST 5 ROWS)", "SELECT a FROM t\nBEGIN (LAST 5 ROWS)"),
        ("SELECT a FROM t", "END ('2030-01-01')", "SELECT a FROM t\nBEGIN (START) END ('2030-01-01')"),
        (
            "SELECT a FROM t, u BEGIN (NOW - 1 DAY) FOR u",
            "BEGIN (NOW - 1 HOUR)",
            "SELECT a FROM t, u BEGIN (NOW - 1 DAY) FOR u\nBEGIN (NOW - 1 HOUR) END (NOW)",
        ),
        (
            "SELECT a FROM t, u BEGIN (NOW - 1 DAY) FOR u BEGIN (NOW - 2 HOURS)",
            "BEGIN (NOW - 1 HOUR) FOR u",
            'SELECT a FROM t, u\nBEGIN (NOW - 1 HOUR) END (NOW) FOR "u"\nBEGIN (NOW - 2 HOURS)',
        ),
        (
            "SELECT a FROM t, u BEGIN (NOW - 2 HOURS) END (NOW - 1 MINUTE) ORDER BY a",
            "END (NOW) FOR u",
            'SELECT a FROM t, u BEGIN (NOW - 2 HOURS) END (NOW - 1 MINUTE)\nBEGIN (NOW - 2 HOURS) END (NOW) FOR "u"\nORDER BY a',
        ),
    ],
)
def test_a_query_gets_another_window_and_keeps_the_rest(text: str, change: str, changed: str) -> None:
    assert _changed(text, change) == changed
