"""The promises that every operator makes (tests/operators/conformance), for questions that Spark SQL answers.

Their cycles run in this process, one at a time: only the answers are Spark's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.database.database import Database
from tests.operators.conformance.suite import SPARK_SQL, Examples, World, cases_one_by_one, check_life, check_splits

CASES = cases_one_by_one(SPARK_SQL)


@pytest.mark.parametrize(("operator", "examples"), CASES)
def test_any_split_into_cycles_gives_the_same_answer(
    database: Database, tmp_path: Path, operator: str, examples: Examples
) -> None:
    check_splits(tmp_path, examples, database.engine.spark)


@pytest.mark.parametrize(("operator", "examples"), CASES)
def test_answers_hold_change_and_come_back(
    database: Database, tmp_path: Path, operator: str, examples: Examples
) -> None:
    check_life(World(tmp_path / "data", spark=database.engine.spark), operator, examples)
