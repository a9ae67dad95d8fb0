"""Regular expressions in Spark SQL: they end in time, and stand wherever an expression may stand."""

from __future__ import annotations

import pytest

from penstock.queries.database import Database

TEXTS = "CREATE TABLE texts (id INT PRIMARY KEY, s TEXT, p TEXT)"
# What Java's regular expressions would try for longer than the sun will shine.
NESTED, STEPS = "(a+)+$", "%" + "a%" * 20 + "b"


@pytest.mark.xfail(strict=True, reason="Spark evaluates regular expressions with Java's, which backtrack")
def test_no_pattern_of_a_reader_holds_a_slot_of_spark(db: Database) -> None:
    db.execute(TEXTS)
    db.execute(f"INSERT INTO texts VALUES (1, '{'a' * 200}!', '{NESTED}')")
    answer = db.execute(
        f"SELECT s ~ '{NESTED}' AS a, s ~* p AS b, regexp_like(s, p) AS c, regexp_count(s, '{NESTED}') AS d, "
        f"regexp_instr(s, '{NESTED}') AS e, regexp_substr(s, '{NESTED}') AS f, regexp_replace(s, '{NESTED}', 'x') = s AS g, "
        f"regexp_replace(s, p, 'x', 'g') = s AS h, split(s, '{NESTED}')[1] = s AS i, regexp_extract(s, '{NESTED}') AS j, "
        f"regexp_extract_all(s, '{NESTED}') AS k, s LIKE '{STEPS}' AS l, s ILIKE '{STEPS.upper()}' AS m, s SIMILAR TO '(a+)+' AS n, "
        f"parse_url('http://h/?{'a' * 60}', 'QUERY', '(a+)+') AS o, MAX(id) OVER () AS id FROM texts"
    ).table.to_pylist()
    nothing = {"a": False, "b": False, "c": False, "d": 0, "e": 0, "f": None, "j": "", "k": [], "l": False, "m": False}
    assert answer == [{**nothing, "g": True, "h": True, "i": True, "n": False, "o": None, "id": 1}]
