"""Where statements end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.statement_runner import SubscribeTo, all_statements, is_blank, parse_subscribe, split_statements


def texts(script: str) -> list[str]:
    return [piece.text for piece in all_statements(script)]


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        (";;\n; ", []),
        ("SELECT ';' ; SELECT 2", ["SELECT ';'", "SELECT 2"]),
        ("SELECT 'it''s;' ; b", ["SELECT 'it''s;'", "b"]),
        ('SELECT "a;b"; c', ['SELECT "a;b"', "c"]),
        ("SELECT 1 -- no; end\n, 2; b", ["SELECT 1 -- no; end\n, 2", "b"]),
        ("SELECT /* ; */ 1; b", ["SELECT /* ; */ 1", "b"]),
        ("CREATE FUNCTION f() AS $$ a; b $$; c", ["CREATE FUNCTION f() AS $$ a; b $$", "c"]),
        ("AS $py$ a; $$ b $py$; c", ["AS $py$ a; $$ b $py$", "c"]),
        ("SELECT $1; SELECT $2", ["SELECT $1", "SELECT $2"]),
        ("-- only a comment\n", []),
    ],
)
def test_semicolons_end_statements_except_inside_of_something(script: str, statements: list[str]) -> None:
    assert texts(script) == statements


@pytest.mark.parametrize("open_text", ["SELECT 'a;", 'SELECT "a;', "AS $$ a;", "/* a;", "SELECT 1 -- a;"])
def test_what_is_still_open_waits_for_more(open_text: str) -> None:
    pieces, rest = split_statements(open_text)
    assert (pieces, rest) == ([], open_text)


def test_a_statement_knows_its_line() -> None:
    assert [piece.line for piece in all_statements("\nSELECT 1;\n\n\nSELECT\n2;")] == [2, 5]


@given(st.text(alphabet="a;'\"$-/*\n ", max_size=40))
def test_nothing_is_lost_or_invented(script: str) -> None:
    pieces, rest = split_statements(script)
    joined = ";".join([*(piece.text for piece in pieces), rest])
    assert set(joined) <= set(script) | {";"}
    for piece in pieces:
        assert piece.text in script
        assert not is_blank(piece.text)
    assert script.endswith(rest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SUBSCRIBE gas_alarm", SubscribeTo("gas_alarm", False, None)),
        ("subscribe Gas_Alarm with changes", SubscribeTo("gas_alarm", True, None)),
        ('SUBSCRIBE "Gas" FROM CYCLE 12', SubscribeTo("Gas", False, 12)),
        ("SUBSCRIBE a FROM CYCLE 3 WITH CHANGES", SubscribeTo("a", True, 3)),
        ("SUBSCRIBE a FINAL FROM CYCLE 3", SubscribeTo("a", False, 3, 12)),
        ("SUBSCRIBE a -- please\n WITH CHANGES", SubscribeTo("a", True, None)),
        ("SELECT 1", None),
        ("SUBSCRIBE", None),
        ("SUBSCRIBE a b", None),
    ],
)
def test_subscribe_is_recognised(text: str, expected: SubscribeTo | None) -> None:
    assert parse_subscribe(text) == expected
