"""The promises of the suite, for every operator of the registry that needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.operators.registry import OPERATORS
from tests.operators.conformance.examples import EXAMPLES
from tests.operators.conformance.suite import SPARK_SQL, World, cases_of, check_life, check_splits

KERNELS = [operator for operator in OPERATORS if operator != SPARK_SQL]
CASES = cases_of(KERNELS)


def test_every_operator_has_examples_of_its_own() -> None:
    assert EXAMPLES.keys() == OPERATORS.keys() and all(EXAMPLES.values())


@pytest.mark.parametrize(("operator", "sql"), CASES)
def test_any_split_into_cycles_gives_the_same_answer(tmp_path: Path, operator: str, sql: str) -> None:
    check_splits(tmp_path, sql)


@pytest.mark.parametrize(("operator", "sql"), CASES)
def test_answers_hold_change_and_come_back(tmp_path: Path, operator: str, sql: str) -> None:
    check_life(World(tmp_path / "data"), operator, sql)
