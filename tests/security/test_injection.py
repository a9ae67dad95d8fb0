"""No text of a user becomes SQL: not a literal, a parameter, a name, an alias or a comment, whatever characters it has."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from penstock.errors import PenstockError
from penstock.sql.parse import parse_script
from penstock.sql.plan import SparkPlan
from penstock.sql.planner import plan_query
from penstock.sql.statements import Select
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
