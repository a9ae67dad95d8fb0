"""The promises of the suite, for every operator of the registry that needs no Spark, and for those of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.operators import registry
from penstock.operators.registry import OPERATORS
from tests.operators.conformance.examples import EXAMPLES, EXAMPLES_OF_TESTS, OF_TESTS
from tests.operators.conformance.suite import (
    SPARK_SQL,
    Examples,
    World,
    cases_of,
    check_error,
    check_final,
    check_life,
    check_oracle,
    check_splits,
    check_trim,
    has_final_rows,
)

KERNELS = [operator for operator in OPERATORS if operator != SPARK_SQL]
CASES = cases_of([*KERNELS, *OF_TESTS])
WITH_ORACLE = [case for case in CASES if any(example.oracle is not None for example in case.values[1].values())]
NEVER_FINAL = {"union_aggregate", "query_aggregate"}
# Cycles do not evaluate these: they answer from what others found, and fail with them.
NO_ERRORS = {"query_aggregate", "resample"}


@pytest.fixture(autouse=True)
def registered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line of an operator of the tests, where a case is about it."""
    case = getattr(request.node, "callspec", None)
    operator = case.params.get("operator") if case is not None else None
    if operator in OF_TESTS:
        monkeypatch.setitem(registry.OPERATORS, operator, OF_TESTS[operator])


def test_every_operator_has_examples_of_its_own() -> None:
    assert EXAMPLES.keys() == OPERATORS.keys() and all(EXAMPLES.values())
    assert EXAMPLES_OF_TESTS.keys() == OF_TESTS.keys() and all(EXAMPLES_OF_TESTS.values())


def test_every_operator_has_an_example_with_final_rows_if_it_has_such(tmp_path: Path) -> None:
    world, found = World(tmp_path / "data"), set()
    for operator in KERNELS:
        for number, example in enumerate(EXAMPLES[operator]):
            name = f"{operator}_{number}"
            world.db.execute(f"CREATE QUERY {name} AS {example.sql}")
            found |= {operator} if has_final_rows(world, name) else set()
    assert set(KERNELS) - found == NEVER_FINAL


@pytest.mark.parametrize(("operator", "examples"), CASES)
def test_any_split_into_cycles_gives_the_same_answer(tmp_path: Path, operator: str, examples: Examples) -> None:
    check_splits(tmp_path, examples)


@pytest.mark.parametrize(("operator", "examples"), CASES)
def test_answers_hold_change_and_come_back(tmp_path: Path, operator: str, examples: Examples) -> None:
    check_life(World(tmp_path / "data"), operator, examples)


@pytest.mark.parametrize(("operator", "examples"), WITH_ORACLE)
def test_every_answer_is_the_oracles(tmp_path: Path, operator: str, examples: Examples) -> None:
    check_oracle(World(tmp_path / "data", 11), examples)


@pytest.mark.parametrize(("operator", "examples"), CASES)
def test_trimmed_and_released_state_changes_no_answer_at_a_kept_cycle(
    tmp_path: Path, operator: str, examples: Examples
) -> None:
    check_trim(tmp_path, examples)


@pytest.mark.parametrize(("operator", "examples"), [case for case in CASES if case.values[0] not in NO_ERRORS])
def test_an_error_row_fails_one_query_only(tmp_path: Path, operator: str, examples: Examples) -> None:
    check_error(World(tmp_path / "data"), examples)


@pytest.mark.parametrize(("operator", "examples"), CASES)
def test_final_rows_are_told_once_and_stay(tmp_path: Path, operator: str, examples: Examples) -> None:
    check_final(World(tmp_path / "data", 1), examples)
