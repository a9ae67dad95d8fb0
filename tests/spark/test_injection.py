"""What tests/security/test_injection.py checks with sqlglot, with Spark's own parser; and texts come back unchanged."""

from __future__ import annotations

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.pipeline.spark_sql import check_nodes, check_parsed, nodes_of, parse
from penstock.sql.functions import FUNCTIONS
from tests.security.test_injection import (
    REFUSED,
    literal,
    name,
    random_strings,
    spark_text,
    whole_unicode,
)
from tests.sql.world import World, plant
from tests.support.listed_calls import TABLE, listed_calls


@pytest.fixture
def spark(db: Database) -> SparkSession:
    found = db.engine.spark  # type: ignore[attr-defined]
    assert isinstance(found, SparkSession)
    return found


def test_spark_parses_the_same_plan_whatever_characters_a_text_has(spark: SparkSession) -> None:
    """To Spark a parameter is a literal, too, and every name is a name between backticks."""
    world, strings = plant(), [*whole_unicode(100_000), *random_strings(100, 9)]
    plans = []
    for used in ([f"x{place}" for place in range(len(strings))], strings):
        outputs = ", ".join(f"{literal(each)} AS {name(each)}" for each in used)
        text = spark_text(world, f"SELECT {outputs} FROM pulse AS {name(used[-1])} -- {used[-1]}")
        plan = parse(spark, text)
        check_nodes(plan, ("r0",), ())
        plans.append([node["class"] for node in nodes_of(plan)])
        assert [node["value"] for node in nodes_of(plan) if node["class"].endswith(".Literal")] == used
        assert [node["name"] for node in nodes_of(plan) if node["class"].endswith(".Alias")] == used
    assert plans[0] == plans[1]


def test_texts_come_back_unchanged(db: Database) -> None:
    strings = ["".join(map(chr, range(0xD800))), "".join(map(chr, range(0xE000, 0x10100))), *random_strings(500, 10)]
    rows = ", ".join(f"(${place + 1})" for place in range(len(strings)))
    found = db.execute(f"SELECT x FROM (VALUES {rows}) AS v(x)", strings).table
    assert found.column("x").to_pylist() == strings


def test_odd_names_are_names_on_spark_too(db: Database) -> None:
    db.execute('CREATE TABLE "t `x` --" (id INT PRIMARY KEY, "a` INT, `b" TEXT, "!" TEXT, "${user.name} :now" TEXT)')
    db.execute("INSERT INTO \"t `x` --\" VALUES (1, '\ue000r0\ue001', '${user.name}', '\x0012')")
    call, table = name("größe"), name("t `x` --")
    db.execute(f"CREATE FUNCTION {call}(a INT) RETURNS INT LANGUAGE python AS $$ return a + 1 $$")
    found = db.execute(f'SELECT "a` INT, `b", "!", "${{user.name}} :now", {call}(id) AS "`" FROM {table} AS "?"')
    assert found.table.to_pylist() == [
        {"a` INT, `b": "\ue000r0\ue001", "!": "${user.name}", "${user.name} :now": "\x0012", "`": 2}
    ]


def test_spark_is_asked_for_nothing_but_the_text(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.variable.substitute") == "false"
    for text in REFUSED:
        with pytest.raises((PenstockError, ParseException)):
            check_parsed(spark, text, ("r0",), ("similar",))


@pytest.mark.parametrize("kind", ["aggregate", "other"])
def test_the_look_with_sparks_parser_knows_every_listed_function(spark: SparkSession, kind: str) -> None:
    aggregates = {name for function in FUNCTIONS if function.kind == "aggregate" for name in function.names}
    items = [item for item in listed_calls() if (item.partition("(")[0] in aggregates) == (kind == "aggregate")]
    world = World()
    world.run(TABLE)
    select = ", ".join(f"{item} AS x{place}" for place, item in enumerate(items))
    check_parsed(spark, spark_text(world, f"SELECT {select} FROM every_type"), ("r0",), ())
