"""What is shown of a running statement."""

from __future__ import annotations

import pytest

from penstock.sql.parse import parse_script
from penstock.statements.permissions import shown_text
from penstock.statements.running_statements import TEXT_MAX_CHARS, shortened


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("SELECT 1 AS n  -- one", "SELECT 1 AS n"),
        ("CREATE USER ada PASSWORD 'correct horse' ROLE admin", "CREATE USER ada"),
        ("ALTER USER ada PASSWORD 'correct horse'", "ALTER USER ada"),
        ("CREATE SINK s FOR q TO webhook (url = 'http://h/?token=abc', secret = 'xyz')", "CREATE SINK s"),
        ("INSERT INTO t VALUES (1, 'mqtt://ada:horse@host')", "INSERT t"),
        ("DROP QUERY a, b", "DROP QUERY a, b"),
    ],
)
def test_what_is_shown_of_a_statement_holds_no_secret(sql: str, shown: str) -> None:
    (statement,) = parse_script(sql)
    assert shown_text(statement) == shown


def test_a_long_text_is_shown_by_its_beginning() -> None:
    found = shortened("SELECT\n  1, " + "2, " * 1_000_000)
    assert found.startswith("SELECT 1, 2, 2") and len(found) == TEXT_MAX_CHARS and found.endswith("…")
