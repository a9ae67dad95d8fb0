"""The functions that reach Spark: their types there, and what stays out of reach even without the binder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.queries.database import Database
from tests.pipeline.conftest import CANARY, CANARY_NAME

SPELLINGS = (
    "{name}({arguments})",
    "builtin.{name}({arguments})",
    "system.builtin.{name}({arguments})",
    "IDENTIFIER('{name}')({arguments})",
    "IDENTIFIER('builtin.{name}')({arguments})",
)


OPEN = pytest.mark.xfail(strict=True, reason="issue 14, point 1: Spark's session reaches the machine")


@pytest.fixture
def session(database: Database) -> SparkSession:
    found = database.engine.spark  # type: ignore[attr-defined]
    assert isinstance(found, SparkSession)
    return found


@OPEN
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ("reflect", "java_method", "try_reflect"))
def test_the_session_has_no_function_that_reaches_outside(session: SparkSession, name: str, spelling: str) -> None:
    call = spelling.format(name=name, arguments=f"'java.lang.System', 'getenv', '{CANARY_NAME}'")
    with pytest.raises(PySparkException) as caught:
        session.sql(f"SELECT {call}").collect()
    assert CANARY not in str(caught.value)
    assert "ROUTINE" in str(caught.value) or "REQUIRES_SINGLE_PART_NAMESPACE" in str(caught.value)


@OPEN
def test_the_environment_of_jvm_and_workers_has_no_secret(session: SparkSession, db: Database) -> None:
    assert os.environ[CANARY_NAME] == CANARY
    jvm = dict(session.sparkContext._jvm.System.getenv())  # type: ignore[union-attr]
    assert "PATH" in jvm and CANARY_NAME not in jvm and CANARY not in str(jvm)
    db.execute(
        "CREATE FUNCTION environment(a TEXT) RETURNS TEXT LANGUAGE python AS $$\n"
        "    import os\n    return str(dict(os.environ))\n$$;"
        "CREATE TABLE one (a TEXT PRIMARY KEY);"
        "INSERT INTO one VALUES ('a')"
    )
    worker = str(db.execute("SELECT environment(a) AS e FROM one ORDER BY a").table.to_pylist())
    assert "PATH" in worker and CANARY not in worker


@OPEN
def test_no_statement_reads_a_file_as_a_table(session: SparkSession, db: Database, tmp_path: Path) -> None:
    secret = tmp_path / "canary.txt"
    secret.write_text(CANARY)
    for kind in ("text", "csv", "json", "parquet", "binaryFile"):
        with pytest.raises(PySparkException) as caught:
            session.sql(f"SELECT * FROM {kind}.`{secret}`").collect()
        assert CANARY not in str(caught.value)
        with pytest.raises(PenstockError):
            db.execute(f'SELECT * FROM {kind}."{secret}"')
