"""Functions as PostgreSQL means them: what the planner makes of a call, without Spark."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.plan import SparkPlan
from penstock.types import BIGINT, DOUBLE, INT, Type
from tests.sql.world import World
from tests.support.listed_calls import TABLE


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
    (("age(t)", "EXTRACT"), ("age(t, t)", "NOW() - ts"), ("session()", "TUMBLE"), ("session(5 MINUTES)", "TUMBLE")),
)
def test_functions_that_are_not_there_yet_have_a_hint(call: str, hint: str) -> None:
    with pytest.raises(PenstockError) as caught:
        planned(call)
    assert caught.value.condition == "not_supported" and hint in str(caught.value.hint)


def test_a_window_by_pauses_in_group_by_has_the_hint_too() -> None:
    with pytest.raises(PenstockError) as caught:
        planned("count(*) AS n FROM every_type GROUP BY SESSION(5 MINUTES) --")
    assert caught.value.condition == "not_supported" and "TUMBLE" in str(caught.value.hint)


@pytest.mark.parametrize("pattern", ("[a", "a(", "*", "a\\", "(a", "a{"))
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(PenstockError) as caught:
        planned(f"s SIMILAR TO '{pattern}'")
    assert caught.value.condition == "syntax_error"
