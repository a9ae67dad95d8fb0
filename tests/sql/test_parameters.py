from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.operators.expr import Call, Literal
from penstock.sql.parse import parse_script
from penstock.sql.plan import SelectPlan
from penstock.sql.planner import plan_query
from penstock.sql.statements import CreateQuery, Select
from tests.sql.world import World


def _predicate(world: World, sql: str, params: Any) -> object:
    (statement,) = parse_script(sql, params)
    assert isinstance(statement, Select)
    plan = plan_query(statement, world, False)
    assert isinstance(plan, SelectPlan)
    found = plan.stream_predicate or plan.static_predicate
    assert isinstance(found, Call)
    value = found.arguments[1]
    assert isinstance(value, Literal)
    return value.value


@pytest.mark.parametrize(
    ("column", "value", "bound"),
    [
        ("ppm", 35, 35.0),
        ("ppm", -3.5, -3.5),
        ("ppm", Decimal("1.25"), 1.25),
        ("location", "it's {here}", "it's {here}"),
        ("ts", datetime(2026, 1, 1, tzinfo=UTC), 1767225600000000),
        ("ts", "2026-01-01", 1767225600000000),
        ("gas_id", None, None),
    ],
)
def test_a_parameter_takes_the_type_of_what_it_is_compared_with(
    world: World, column: str, value: object, bound: object
) -> None:
    assert _predicate(world, f"SELECT ppm FROM sensors WHERE {column} = $1", [value]) == bound
    assert _predicate(world, f"SELECT ppm FROM sensors WHERE {column} = :x", {"x": value}) == bound


def test_a_stored_query_has_the_values_of_its_parameters_written_out() -> None:
    (statement,) = parse_script(
        "CREATE QUERY q AS SELECT ppm FROM sensors WHERE ppm > $2 AND location = $1 BEGIN (NOW - $3)",
        ["it's", -2, "1h30m"],
    )
    assert isinstance(statement, CreateQuery)
    assert statement.sql == ("SELECT ppm FROM sensors WHERE ppm > -2 AND location = 'it''s' BEGIN (NOW - '1h30m')")


def test_a_value_is_never_read_as_sql(world: World) -> None:
    assert _predicate(world, "SELECT ppm FROM sensors WHERE location = $1", ["x' OR '1'='1"]) == "x' OR '1'='1"


@pytest.mark.parametrize(
    ("sql", "params", "message"),
    [
        ("SELECT $1", None, "there is no value for parameter $1: 0 given"),
        ("SELECT $2", [1], "there is no value for parameter $2: 1 given"),
        ("SELECT :colour", {"color": 1}, 'there is no value for parameter "colour"'),
        ("SELECT $1", [object()], "a object cannot be a parameter"),
    ],
)
def test_a_missing_value_is_an_error_that_points_at_the_parameter(sql: str, params: Any, message: str) -> None:
    with pytest.raises(PenstockError) as failure:
        parse_script(sql, params)
    assert failure.value.message == message
    assert failure.value.column == 8
