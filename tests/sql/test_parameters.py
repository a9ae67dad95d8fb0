from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlglot import exp

from penstock.errors import PenstockError
from penstock.expr.expression import Call, Literal
from penstock.sql.dialect import sql_of
from penstock.sql.parse import parse_script, parse_select
from penstock.sql.plan import SelectPlan
from penstock.sql.planning.planner import plan_query
from penstock.sql.statements import CreateQuery, Insert, Select
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
    assert statement.select.sql == (
        "SELECT ppm FROM sensors WHERE ppm > -2 AND location = 'it''s' BEGIN (NOW - '1h30m')"
    )


@pytest.mark.parametrize("value", [-3, -0.5, -0.0, Decimal("-2.5"), Decimal("-0")])
@pytest.mark.parametrize("sum_of", ["1-$1", "1 -$1", "1 - $1", "-$1", "$1-$1", "$1::BIGINT", "$1 ::BIGINT"])
def test_a_stored_query_with_a_value_below_zero_says_the_same_when_it_is_read_again(sum_of: str, value: object) -> None:
    """Of 1-$1 with -3 no comment may become: ALTER QUERY and readers of the query parse the text once more."""
    text = f"SELECT ppm FROM sensors WHERE ppm > {sum_of} AND location = 'north' BEGIN (NOW - 1 HOUR)"
    (statement,) = parse_script(f"CREATE QUERY q AS {text}", [value])
    assert isinstance(statement, CreateQuery)
    again = parse_select(statement.select.sql).query
    for paren in list(again.find_all(exp.Paren)):
        paren.replace(paren.this)
    assert sql_of(again) == sql_of(statement.select.query)


def test_a_number_that_is_none_is_no_crash() -> None:
    (statement,) = parse_script("CREATE QUERY q AS SELECT ppm FROM sensors WHERE ppm > $1", [Decimal("NaN")])
    assert isinstance(statement, CreateQuery) and "nan" in statement.select.sql


@pytest.mark.parametrize("list_of", ["$1,$2,$3", "$1, $2, $3", "$1 ,$2 ,$3", "$3,$2,$1", "$1,$1||$2,$3"])
def test_parameters_need_no_space_between_them(list_of: str) -> None:
    (statement,) = parse_script(f"CREATE QUERY q AS SELECT ppm FROM sensors WHERE ppm IN ({list_of})", ["a", "b", "c"])
    assert isinstance(statement, CreateQuery)
    written = list_of.replace("$1", "'a'").replace("$2", "'b'").replace("$3", "'c'")
    assert statement.select.sql == f"SELECT ppm FROM sensors WHERE ppm IN ({written})"


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("BEGIN (LAST $1 ROWS)", "BEGIN (LAST 7 ROWS)"),
        ("BEGIN (LAST :n ROWS PER SENSOR)", "BEGIN (LAST 7 ROWS PER SENSOR)"),
        ("BEGIN (NOW - $1 SECONDS) END (NOW)", "BEGIN (NOW - 7 SECONDS) END (NOW)"),
        ("WHERE ppm > 1 FOR $1 SECONDS", "WHERE ppm > 1 FOR 7 SECONDS"),
        ("WHERE ppm > 1 FOR :d", "WHERE ppm > 1 FOR '7 SECONDS'"),
    ],
)
def test_numbers_of_rows_and_durations_may_be_parameters(asked: str, written: str) -> None:
    params = {"1": 7, "n": 7, "d": "7 SECONDS"}
    (statement,) = parse_script(f"CREATE QUERY q AS SELECT ppm FROM sensors {asked}", params)
    assert isinstance(statement, CreateQuery)
    assert statement.select.sql == f"SELECT ppm FROM sensors {written}"
    plain = parse_select(f"SELECT ppm FROM sensors {written}").query
    assert sql_of(statement.select.query) == sql_of(plain)


def test_a_cycle_may_be_a_parameter_and_a_number_of_rows_is_whole() -> None:
    (select,) = parse_script("SELECT * FROM q AS OF CYCLE $1", [4711])
    assert isinstance(select, Select) and select.as_of is not None and select.as_of.cycle == 4711
    with pytest.raises(PenstockError, match="expected a number of rows, got 'x'") as refused:
        parse_script("CREATE QUERY q AS SELECT ppm FROM sensors BEGIN (LAST $1 ROWS)", ["x"])
    assert refused.value.condition == "invalid_parameter"


def test_parameters_stand_beside_texts_with_dollars_in_them() -> None:
    text = "SELECT $$1,$2$$, $tag$3,$4$tag$, 'for $5,$6', \"a $7,$8\", $1,$2"
    (statement,) = parse_script(f"CREATE QUERY q AS {text} FROM sensors", ["x", 9])
    assert isinstance(statement, CreateQuery)
    assert statement.select.sql == text.removesuffix("$1,$2") + "'x',9 FROM sensors"


def test_a_row_of_parameters_is_inserted_as_it_is_typed() -> None:
    (statement,) = parse_script("INSERT INTO sensors VALUES ($1,$2),($3,$4)", [1, "a", 2, "$5,$6"])
    assert isinstance(statement, Insert)
    assert [[sql_of(value) for value in row] for row in statement.rows] == [["1", "'a'"], ["2", "'$5,$6'"]]


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


def test_a_text_that_is_no_unicode_is_refused_as_a_parameter() -> None:
    with pytest.raises(PenstockError, match="surrogate"):
        parse_script("INSERT INTO sensors (location) VALUES ($1)", ["half a pair: \ud83d"])
