"""No text of a user becomes SQL: not a literal, a parameter, a name, an alias or a comment, whatever characters it has."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from penstock.errors import PenstockError
from penstock.sql.parse import parse_script, parse_select
from penstock.sql.plan import SparkPlan
from penstock.sql.planning.planner import plan_query
from penstock.sql.spark.text_check import check_spark_text
from penstock.sql.statements import CreateQuery, Select
from penstock.types import TEXT, Field
from tests.sql.world import SYSTEM, World, plant


@pytest.fixture(scope="module")
def world() -> World:
    return plant()


def spark_text(world: World, sql: str, params: list[Any] | None = None) -> str:
    (statement,) = parse_script(sql, params)
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, False, SYSTEM, shared=False)
    assert isinstance(plan, SparkPlan)
    return plan.sql


def literals(text: str) -> list[str]:
    return [node.name for node in sqlglot.parse_one(text, dialect="spark").find_all(exp.Literal) if node.is_string]


HOLES = ["\ue000now\ue001", "\ue000r0\ue001", "\ue000", "\ue001", "\ue0a41", "{now}", "{{now}}", "$1", ":now", "?"]


def test_a_literal_cannot_name_what_the_runner_fills_in(world: World) -> None:
    for attack in HOLES:
        text = spark_text(world, f"SELECT location FROM sensors WHERE location = '{attack}' ORDER BY location")
        assert literals(text) == [attack], attack
        assert attack in literals(spark_text(world, "SELECT location FROM sensors WHERE location = $1", [attack]))


def test_no_character_stands_for_the_sign_of_a_parameter() -> None:
    with pytest.raises(PenstockError, match="nothing asks for"):
        parse_script("SELECT \ue0a41", [7])
    (found,) = parse_script("SELECT $1, '\ue0a41 and $1' -- \ue0a4 $1", [7])
    assert isinstance(found, Select)
    assert [node.name for node in found.query.find_all(exp.Literal)] == ["7", "\ue0a41 and $1"]


def test_the_name_of_a_function_is_one_name(world: World) -> None:
    world.run('CREATE FUNCTION "pi(), reflect"(a DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$ return a $$')
    tree = sqlglot.parse_one(spark_text(world, 'SELECT "pi(), reflect"(ppm) AS y FROM sensors'), dialect="spark")
    assert len(tree.selects) == 1


def test_a_nul_before_digits_is_a_character_of_its_own(world: World) -> None:
    text = spark_text(world, "SELECT location FROM sensors WHERE location = '\x0012'")
    assert "'\x0012'" in text


def test_half_of_a_surrogate_pair_is_refused() -> None:
    for text in ("SELECT '\ud800'", 'SELECT 1 AS "\udfff"', "SELECT 1 -- \udc00"):
        with pytest.raises(PenstockError, match="surrogate"):
            parse_script(text)


# -- every code point, and many strings of the characters that mean something somewhere

SPECIAL = "'\"\\`{}%:$?-/*;\n\r\x00\t \ue000\ue001\ue0a4()[],.@#&|~^!=<>+_aZ09\u202e\u2066\u2028\u200b\uff07\u2019\u00e9\U0010ffff"
ATTACKS = [
    *HOLES,
    "' OR 1=1 --",
    "` FROM x --",
    "*/ DROP TABLE x /*",
    "\\",
    "\\'",
    "\\\\'",
    "\\u0027",
    "${spark.app.name}",
    "IDENTIFIER('x')",
    "'; SELECT 1; --",
    "\x00",
    "\x0012",
    "\r\n",
]


def whole_unicode(length: int) -> list[str]:
    """Every code point once, in strings of this length."""
    points = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    return ["".join(points[at : at + length]) for at in range(0, len(points), length)]


def random_strings(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    drawn = ("".join(chance.choices(SPECIAL, k=chance.randint(1, 12))) for _ in range(count))
    return list(dict.fromkeys([*ATTACKS, *drawn]))


def in_batches(strings: list[str], size: int) -> Iterator[list[str]]:
    return (strings[at : at + size] for at in range(0, len(strings), size))


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def shape(tree: exp.Expr) -> list[str]:
    return [type(node).__name__ for node in tree.walk()]


def check_role(world: World, strings: list[str], size: int, question: Callable[[list[str]], Question]) -> None:
    """Texts that differ in strings of users only have one shape, and in the place of each string there is that string."""
    plain: dict[int, list[str]] = {}
    for batch in in_batches(strings, size):
        count, asked = len(batch), question(batch)
        if count not in plain:
            harmless = question([f"x{place}" for place in range(count)])
            plain[count] = shape(sqlglot.parse_one(spark_text(world, harmless.sql, harmless.params), dialect="spark"))
        text = spark_text(world, asked.sql, asked.params)
        tree = sqlglot.parse_one(text, dialect="spark")
        assert shape(tree) == plain[count]
        names = check_spark_text(text, tuple(f"r{place}" for place in range(asked.relations)), ())
        found = names if asked.are_names else {node.name for node in tree.find_all(exp.Literal)}
        assert set(batch) <= found, next(string for string in batch if string not in found)


@dataclass(frozen=True)
class Question:
    sql: str
    params: list[Any] | None = None
    relations: int = 1
    are_names: bool = False


def of_literals(strings: list[str]) -> Question:
    return Question(f"SELECT ppm FROM sensors WHERE location IN ({', '.join(map(literal, strings))}) ORDER BY 1")


def of_parameters(strings: list[str]) -> Question:
    places = ", ".join(f"${place + 1}" for place in range(len(strings)))
    return Question(f"SELECT ppm FROM sensors WHERE location IN ({places}) ORDER BY 1", strings)


def of_aliases(strings: list[str]) -> Question:
    listed = ", ".join(f"1 AS {name(string)}" for string in strings)
    return Question(f"SELECT {listed} FROM sensors ORDER BY ts", are_names=True)


def of_table_aliases(strings: list[str]) -> Question:
    listed = ", ".join(f"pulse AS {name(string)}" for string in strings)
    return Question(f"SELECT COUNT(*) FROM {listed}", relations=len(strings), are_names=True)


def test_literals_of_all_characters_stay_literals(world: World) -> None:
    check_role(world, whole_unicode(4000), 300, of_literals)
    check_role(world, random_strings(8_000, 1), 4_000, of_literals)


def test_parameters_of_all_characters_stay_literals(world: World) -> None:
    check_role(world, whole_unicode(4000), 300, of_parameters)
    check_role(world, random_strings(5_000, 2), 5_000, of_parameters)


def test_aliases_of_all_characters_stay_names(world: World) -> None:
    check_role(world, whole_unicode(4000), 300, of_aliases)
    check_role(world, random_strings(5_000, 3), 250, of_aliases)


def test_aliases_of_tables_of_all_characters_stay_names(world: World) -> None:
    check_role(world, whole_unicode(10_000), 20, of_table_aliases)
    check_role(world, random_strings(500, 4), 20, of_table_aliases)


def test_columns_of_all_characters_stay_names() -> None:
    world = plant()
    names = ["n" + string for string in random_strings(2_000, 5)]
    tables = iter(names)

    def of_columns(strings: list[str]) -> Question:
        table, columns = next(tables), [f"{name(each[:100])} TEXT" for each in strings]
        world.run(f"CREATE TABLE {name(table)} (id INT PRIMARY KEY, {', '.join(columns)}, r STREAM (x DOUBLE))")
        # A name has 128 characters at most: longer ones, for all of Unicode in few names, are put in by hand.
        known = world.tables[table]
        world.tables[table] = replace(known, columns=(known.columns[0], *(Field(each, TEXT) for each in strings)))
        listed = ", ".join(f"{name(table)}.{name(each)}" for each in strings)
        return Question(f"SELECT {listed} FROM {name(table)} ORDER BY id", are_names=True)

    check_role(world, names, 50, of_columns)
    check_role(world, ["n" + string for string in whole_unicode(4000)], 50, of_columns)


def test_tables_of_all_characters_stay_names() -> None:
    world = plant()

    def of_tables(strings: list[str]) -> Question:
        for each in strings:
            world.tables[each] = replace(world.tables["my_segments"], name=each)
        union = " UNION ALL ".join(f"SELECT segment FROM {name(each)}" for each in strings)
        return Question(union, relations=len(strings), are_names=True)

    check_role(world, [*whole_unicode(4000), *random_strings(500, 7)], 20, of_tables)


def test_comments_of_all_characters_are_gone(world: World) -> None:
    plain = spark_text(world, "SELECT ppm FROM sensors WHERE location = 'x' ORDER BY 1")
    comments = [*whole_unicode(20_000), *random_strings(75_000, 6)]
    for batch in in_batches(comments, 2_000):
        inside = " ".join("/* " + re.sub(r"/\*|\*/", "", each) + " */" for each in batch)
        lines = "".join("-- " + re.sub(r"[\r\n]", "", each) + "\n" for each in batch)
        sql = f"SELECT ppm {inside} FROM sensors {lines} WHERE location = 'x' ORDER BY 1"
        assert spark_text(world, sql) == plain


def test_parameters_of_a_standing_query_are_written_out_as_the_same_texts() -> None:
    strings = [*whole_unicode(4000), *random_strings(2_000, 8)]
    for batch in in_batches(strings, 500):
        places = ", ".join(f"${place + 1}" for place in range(len(batch)))
        (made,) = parse_script(f"CREATE QUERY q AS SELECT ppm FROM sensors WHERE location IN ({places})", batch)
        assert isinstance(made, CreateQuery)
        found = parse_select(made.select.sql).query.find_all(exp.Literal)
        assert [node.name for node in found] == batch


# -- the last look at a text

GOLDEN = Path(__file__).parents[1] / "sql" / "golden"


def test_every_text_of_the_golden_scripts_passes_the_check() -> None:
    texts = [t for script in GOLDEN.glob("*.sql") for t in re.findall(r"^--\|\s+text: (.*)$", script.read_text(), re.M)]
    assert len(texts) > 30
    for text in texts:
        check_spark_text(text, tuple(sorted(set(re.findall(r"IDENTIFIER\(:(r\d+)\)", text)))), ("similar",))


REFUSED = [
    "SELECT 1; SELECT `a` FROM IDENTIFIER(:r0)",
    "SELECT `a` FROM `secret`, IDENTIFIER(:r0)",
    "SELECT `a` FROM secret, IDENTIFIER(:r0)",
    "SELECT `a` FROM IDENTIFIER(:r0) WHERE `a` IN (SELECT `b` FROM parquet.`/etc/passwd`)",
    "SELECT `a` FROM IDENTIFIER(:r1)",
    "SELECT `a` FROM IDENTIFIER(:r0) JOIN IDENTIFIER(:r1)",
    "SELECT `a` FROM IDENTIFIER('x')",
    "SELECT `a` FROM IDENTIFIER(:now), IDENTIFIER(:r0)",
    "SELECT :other FROM IDENTIFIER(:r0)",
    "SELECT ? FROM IDENTIFIER(:r0)",
    "SELECT reflect('java.lang.System', 'getenv') FROM IDENTIFIER(:r0)",
    "SELECT `reflect`('java.lang.System', 'getenv') FROM IDENTIFIER(:r0)",
    "SELECT builtin.reflect('java.lang.System', 'getenv') FROM IDENTIFIER(:r0)",
    "SELECT system.builtin.pmod(1, 2) FROM IDENTIFIER(:r0)",
    "SELECT IDENTIFIER('reflect')('x') FROM IDENTIFIER(:r0)",
    "SELECT (pmod)(1, 2) FROM IDENTIFIER(:r0)",
    "SELECT current_user() FROM IDENTIFIER(:r0)",
    "SELECT input_file_name() FROM IDENTIFIER(:r0)",
    "SELECT /*+ BROADCAST(`x`) */ `a` FROM IDENTIFIER(:r0) AS `x`",
    "SELECT TRANSFORM(`a`) USING 'cat' AS (`b`) FROM IDENTIFIER(:r0)",
    "SELECT `a` FROM IDENTIFIER(:r0) LATERAL VIEW EXPLODE(`x`) AS `y`",
    "SELECT `a` FROM IDENTIFIER(:r0), range(3)",
    "WITH `q` AS (SELECT 1) SELECT `a` FROM IDENTIFIER(:r0), `q`",
    "INSERT INTO `x` SELECT `a` FROM IDENTIFIER(:r0)",
    "CREATE TABLE `x` AS SELECT `a` FROM IDENTIFIER(:r0)",
    "SET spark.sql.variable.substitute = true",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "SELECT `a` FROM IDENTIFIER(:r0) FOR VERSION AS OF 1",
    "SELECT 'a'('b') FROM IDENTIFIER(:r0)",
    'SELECT "a" || `b` FROM {r0}',
    "SELECT '\\\\' OR 1=1 --' FROM IDENTIFIER(:r0)",
    "",
    "SELECT `a` FROM IDENTIFIER(:r0) WHERE '",
]


# Spark reads these as questions over r0, too; the planner writes none of them.
UNEXPECTED = [
    "FROM IDENTIFIER(:r0) |> WHERE TRUE",
    "SELECT `a` FROM IDENTIFIER(:r0) TABLESAMPLE (1 ROWS)",
    "SELECT `a` FROM IDENTIFIER(:r0);",
    "SELECT SESSION_USER FROM IDENTIFIER(:r0)",
    "SELECT a FROM IDENTIFIER(:r0)",
    "SELECT `a` /* b */ FROM IDENTIFIER(:r0)",
    "SELECT `a` -- b\nFROM IDENTIFIER(:r0)",
    "SELECT r'a' FROM IDENTIFIER(:r0)",
    "SELECT X'41' FROM IDENTIFIER(:r0)",
    "SELECT :r0 FROM IDENTIFIER(:r0)",
]


@pytest.mark.parametrize("text", [*REFUSED, *UNEXPECTED])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(PenstockError) as caught:
        check_spark_text(text, ("r0",), ("similar",))
    assert caught.value.condition == "spark_text_refused"
