"""Regular expressions in Spark SQL: they end in time, and stand wherever an expression may stand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.functions.regular_expressions import FUNCTIONS, SPARK_PREFIX
from tests.spark.conftest import clear

TEXTS = "CREATE TABLE texts (id INT PRIMARY KEY, s TEXT, p TEXT)"
# What Java's regular expressions would try for longer than the sun will shine.
NESTED, STEPS = "(a+)+$", "%" + "a%" * 20 + "b"


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


ROWS = [(1, "abc", "^a"), (2, "xay", "("), (3, "größe", None), (4, None, "a"), (5, "a\nb", "A|ö")]
# Wherever Spark has a rule of its own for functions of Python.
POSITIONS = {
    "SELECT id FROM texts WHERE s ~ p IS NULL ORDER BY regexp_replace(s, '^.', '') DESC NULLS LAST, id": [3, 2, 4],
    "SELECT MAX(regexp_substr(s, '.$')) FROM texts GROUP BY s LIKE '%a%y' HAVING MAX(s) ~ 'x'": ["y"],
    "SELECT COUNT(*) FILTER (WHERE s LIKE '%a%b%') + COUNT(DISTINCT regexp_replace(s, '[^a]', '', 'g')) FROM texts": [
        4
    ],
    "SELECT COUNT(*) OVER (PARTITION BY s ~ 'a' ORDER BY id) AS n FROM texts ORDER BY n": [1, 1, 1, 2, 3],
    "SELECT b.id FROM texts a JOIN texts b ON a.s ~ b.p WHERE a.id = 1 ORDER BY 1": [1, 4],
    "SELECT b.id FROM texts a LEFT JOIN texts b ON a.id = b.id AND b.s ~ 'a' AND a.s LIKE '%a%c%' ORDER BY a.id": [
        *(1, None, None, None, None)
    ],
    "SELECT a.id FROM texts a WHERE a.s IN (SELECT regexp_replace(b.s, 'zz', '') FROM texts b WHERE b.s ~ 'x')": [2],
    "SELECT a.id FROM texts a WHERE EXISTS (SELECT 1 FROM texts b WHERE b.id = a.id AND b.s ~ 'x')": [2],
    "SELECT id FROM texts WHERE s ~ (SELECT MIN(p) FROM texts WHERE id = 1) ORDER BY id": [1, 5],
    "WITH c AS (SELECT id, regexp_replace(s, 'a', '') AS t FROM texts) SELECT id FROM c WHERE t LIKE '_y%'": [2],
    "SELECT 'abc' ~ 'b' AND 'a' LIKE '_'": [True],
}
# Arguments and results of other functions, which the planner may name by a lambda.
NESTED_CALLS = {
    "CASE WHEN id = 2 THEN '' ELSE substring(regexp_replace(s, 'a', 'x'), id % 3, 1 + id % 2) END": "xb",
    "floor(length(regexp_replace(s, 'a', 'xx')) / 2.0)": 2.0,
    "lpad(upper(regexp_substr(s, '.')), regexp_count(s, 'c') + 1, '-')": "-A",
    "levenshtein(regexp_replace(s, 'b', ''), regexp_substr(s, 'ab'))": 1,
    "split(s, p)[2]": "bc",
    "regexp_replace(regexp_replace(s, 'a', 'b'), 'b+', '-')": "-c",
    "parse_url('http://h/?a.b=1&axb=2', 'QUERY', 'a.b')": "1",
    "parse_url('http://h/?ab=&b=2', 'QUERY', s)": None,
    "regexp_like(CAST(unhex('61FF') AS TEXT), 'a')": None,
    "levenshtein(repeat(s, 400), s)": None,
    "btrim(s, repeat('b', 999) || 'a')": "c",
    "btrim(s, repeat('b', 1000) || 'a')": None,
    "array_distinct(ARRAY[ARRAY[id], ARRAY[id]])[1][1]": 1,
}


@pytest.fixture(scope="module")
def texts(database: Database) -> Iterator[Database]:
    database.execute(TEXTS)
    rows = ", ".join("({}, {}, {})".format(*("NULL" if v is None else repr(v) for v in row)) for row in ROWS)
    database.execute("INSERT INTO texts VALUES " + rows.replace("\\n", "\n"))
    yield database
    clear(database)


@pytest.mark.parametrize("question", POSITIONS)
def test_a_regular_expression_stands_wherever_an_expression_may(texts: Database, question: str) -> None:
    (column,) = texts.execute(question).table.columns
    assert column.to_pylist() == POSITIONS[question]


def test_a_regular_expression_is_an_argument_of_any_function(texts: Database) -> None:
    items = ", ".join(f"{call} AS x{i}" for i, call in enumerate(NESTED_CALLS))
    (row,) = texts.execute(f"SELECT {items} FROM texts WHERE id = 1").table.to_pylist()
    assert dict(zip(NESTED_CALLS, row.values(), strict=True)) == NESTED_CALLS


@pytest.mark.parametrize(
    "join", ("LEFT JOIN texts b ON a.s ~ b.p", "WHERE EXISTS (SELECT 1 FROM texts b WHERE a.s ~ b.p)")
)
def test_a_pattern_of_the_other_side_of_an_outer_join_is_refused_by_name(texts: Database, join: str) -> None:
    with pytest.raises(PenstockError) as caught:
        texts.execute(f"SELECT a.id FROM texts a {join}")
    assert caught.value.condition == "not_supported" and "inner join" in str(caught.value.hint)


def test_functions_of_the_session_are_there_but_no_statement_can_call_them(texts: Database) -> None:
    spark = texts.engine.spark  # type: ignore[attr-defined]
    for name in (SPARK_PREFIX + name for name in FUNCTIONS):
        assert spark.catalog.functionExists(name)
        for call in (f"{name}(s, 'a')", f"session.{name}(s, 'a')", f'"{name}"(s, p)'):
            with pytest.raises(PenstockError, match="there is no function"):
                texts.execute(f"SELECT {call} FROM texts")
