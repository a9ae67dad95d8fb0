"""Functions as PostgreSQL means them: what the planner and the kernels make of a call, without Spark."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.expr.evaluate import evaluate
from penstock.sql.functions import FUNCTIONS
from penstock.sql.plan import SelectPlan, SparkPlan
from penstock.types import BIGINT, DOUBLE, INT, Type
from scripts.postgres_differences import DIFFERENCES, LACKING
from tests.sql.world import World
from tests.support.listed_calls import TABLE
from tests.support.postgres_calls import (
    AGGREGATES,
    CALLS,
    DECLARED,
    LISTED,
    NOT_COMPARED,
    ROWS,
    Answers,
    arrow_columns,
    differences,
    equal,
    function_of,
    names_in,
    plain,
    type_fits,
)


def planned(call: str) -> SparkPlan:
    world = World()
    world.run(TABLE)
    plan = world.plan(f"SELECT {call} AS x FROM every_type", shared=False)
    assert isinstance(plan, SparkPlan)
    return plan


def test_regexp_extract_keeps_the_number_of_the_group() -> None:
    assert "'(a)(b)', 2)" in planned("regexp_extract(s, '(a)(b)', 2)").sql


def test_the_logarithm_without_a_base_has_base_ten() -> None:
    assert "log10(" in planned("log(d)").sql.lower()


@pytest.mark.parametrize(
    ("call", "type_"), (("div(7, 2)", INT), ("div(i, i)", INT), ("div(i, b)", BIGINT), ("div(d, i)", DOUBLE))
)
def test_a_quotient_has_the_type_of_its_operands(call: str, type_: Type) -> None:
    assert planned(call).outputs[0][1] == type_


@pytest.mark.parametrize(
    "call, hint",
    (("age(t)", "EXTRACT"), ("age(t, t)", "NOW() - ts"), ("session()", "GROUP BY"), ("session(5 MINUTES)", "GROUP BY")),
)
def test_functions_that_are_not_there_have_a_hint(call: str, hint: str) -> None:
    with pytest.raises(PenstockError) as caught:
        planned(call)
    assert caught.value.condition == "not_supported" and hint in str(caught.value.hint)


@pytest.mark.parametrize("pattern", ("[a", "a(", "*", "a\\", "(a", "a{"))
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(PenstockError) as caught:
        planned(f"s SIMILAR TO '{pattern}'")
    assert caught.value.condition == "syntax_error"


@pytest.fixture(scope="module")
def answers(postgres_answers: Answers) -> Answers:
    return postgres_answers


def world_of_streams() -> World:
    world = World()
    world.run(f"CREATE TABLE v (id INT PRIMARY KEY, r STREAM ({DECLARED}))")
    return world


def test_kernels_answer_as_postgresql_does(answers: Answers) -> None:
    world, columns = world_of_streams(), arrow_columns()
    compared, differing = 0, {}
    for call in CALLS:
        plan = world.plan(f"SELECT {call} AS x FROM v")
        if not isinstance(plan, SelectPlan):
            continue  # it runs as Spark SQL
        output = plan.outputs[0]
        assert type_fits(answers[call][0], output.type), (call, answers[call][0], output.type)
        found = plain(evaluate(output.expr, columns, ROWS))
        compared += 1
        pairs = differences(answers[call][1], found, output.type)
        if pairs:
            differing[call] = pairs
    assert compared > 80
    unlisted = {call: pairs for call, pairs in differing.items() if function_of(call) not in LISTED}
    assert unlisted == {}


def test_examples_of_differences_are_as_the_reference_says(answers: Answers) -> None:
    world, compared = world_of_streams(), 0
    for difference in DIFFERENCES:
        assert answers[difference.call][1][0] == difference.postgres, difference
        plan = world.plan(f"SELECT {difference.call} AS x, d FROM v")
        if isinstance(plan, SelectPlan):
            output = plan.outputs[0]
            found = plain(evaluate(output.expr, arrow_columns(), ROWS))
            assert equal(found[0], difference.penstock), (difference, found[0])
            compared += 1
    assert compared > 8


def test_every_listed_function_is_compared_or_not_in_postgresql(answers: Answers) -> None:
    names = {name for function in FUNCTIONS for name in function.names}
    called = {name for call in (*CALLS, *AGGREGATES) for name in names_in(call)}
    assert names > LACKING and not LACKING & called - {"if"}
    assert set(answers["names"][1]) & LACKING == set()
    assert names - called - LACKING == set(NOT_COMPARED)


@pytest.mark.parametrize("name", ("round", "trunc"))
def test_a_number_cut_to_unknown_digits_is_unknown(name: str) -> None:
    plan = world_of_streams().plan(f"SELECT {name}(d, NULL) AS x, d FROM v")
    assert isinstance(plan, SelectPlan)
    output = plan.outputs[0]
    assert set(plain(evaluate(output.expr, arrow_columns(), ROWS))) == {None}
