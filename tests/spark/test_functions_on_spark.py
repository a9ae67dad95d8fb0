"""The functions that reach Spark: their types there, and what stays out of reach even without the binder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.pipeline.session import REMOVED
from penstock.sql.functions import FUNCTIONS
from penstock.sql.plan import SparkPlan
from penstock.sql.spark.text import NOW
from tests.security.test_functions import OURS, SPARK_NAMES
from tests.spark.conftest import CANARY, CANARY_NAME
from tests.sql.world import World
from tests.support.listed_calls import TABLE, listed_calls

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
SPELLINGS = (
    "{name}({arguments})",
    "builtin.{name}({arguments})",
    "system.builtin.{name}({arguments})",
    "IDENTIFIER('{name}')({arguments})",
    "IDENTIFIER('builtin.{name}')({arguments})",
)


@pytest.fixture
def session(database: Database) -> SparkSession:
    found = database.engine.spark  # type: ignore[attr-defined]
    assert isinstance(found, SparkSession)
    return found


def schema_of(session: SparkSession, items: list[str]) -> list[tuple[str, str, str]]:
    """Of each item: itself, the type that the list says and the type that Spark gives."""
    world = World()
    world.run(TABLE)
    select = ", ".join(f"{item} AS x{i}" for i, item in enumerate(items))
    plan = world.plan(f"SELECT {select} FROM every_type", shared=False)
    assert isinstance(plan, SparkPlan)
    columns = ", ".join(f"{c.name} {c.type.to_spark()}" for c in world.tables["every_type"].columns)
    session.createDataFrame([], f"{columns}, _born BIGINT, _died BIGINT").createOrReplaceTempView("every_type")
    arguments = {"r0": "every_type", NOW: 0}
    wanted = StructType.fromDDL(", ".join(f"`{name}` {type_.to_spark()}" for name, type_ in plan.outputs))
    found = session.sql(plan.sql, args=arguments).schema
    session.catalog.dropTempView("every_type")
    pairs = zip(items, wanted.fields, found.fields, strict=True)
    return [(item, w.dataType.simpleString(), f.dataType.simpleString()) for item, w, f in pairs]


def test_the_stored_list_of_names_is_that_of_the_running_spark(session: SparkSession) -> None:
    running = {row[0] for row in session.sql("SHOW ALL FUNCTIONS").collect()}
    own = {name for name in running if "." in name}
    assert set(OURS) < running
    assert running - own - set(OURS) | set(REMOVED) == set(SPARK_NAMES)


def test_every_listed_function_has_the_type_that_spark_gives(session: SparkSession) -> None:
    aggregates = {name for function in FUNCTIONS if function.kind == "aggregate" for name in function.names}
    items = list(listed_calls())
    grouped = [item for item in items if item.partition("(")[0] in aggregates]
    alone = [item for item in items if item not in grouped]
    found = [*schema_of(session, grouped), *schema_of(session, alone)]
    assert [row for row in found if row[1] != row[2]] == []


# Each name as it is, and in one of the other spellings; `make soak` takes all of them for each name.
CALLS = [
    (name, spelling)
    for number, name in enumerate(REMOVED)
    for spelling in (SPELLINGS if SOAK else (SPELLINGS[0], SPELLINGS[1 + number % (len(SPELLINGS) - 1)]))
]


@pytest.mark.parametrize(("name", "spelling"), CALLS)
def test_the_session_has_no_function_that_reaches_outside(session: SparkSession, name: str, spelling: str) -> None:
    call = spelling.format(name=name, arguments=f"'java.lang.System', 'getenv', '{CANARY_NAME}'")
    with pytest.raises(PySparkException) as caught:
        session.sql(f"SELECT {call}").collect()
    assert CANARY not in str(caught.value)
    assert "ROUTINE" in str(caught.value) or "REQUIRES_SINGLE_PART_NAMESPACE" in str(caught.value)


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


def test_no_statement_reads_a_file_as_a_table(session: SparkSession, db: Database, tmp_path: Path) -> None:
    secret = tmp_path / "canary.txt"
    secret.write_text(CANARY)
    for kind in ("text", "csv", "json", "parquet", "binaryFile"):
        with pytest.raises(PySparkException) as caught:
            session.sql(f"SELECT * FROM {kind}.`{secret}`").collect()
        assert CANARY not in str(caught.value)
        with pytest.raises(PenstockError):
            db.execute(f'SELECT * FROM {kind}."{secret}"')


@pytest.mark.parametrize(
    "call", ("reflect('java.lang.System', 'getenv', '{}')", "java_method('java.lang.System', 'getenv', '{}')")
)
def test_a_question_never_sees_the_environment(db: Database, call: str) -> None:
    with pytest.raises(PenstockError) as caught:
        db.execute(f"SELECT CAST({call.format(CANARY_NAME)} AS TEXT)")
    assert caught.value.condition == "function_not_found"


@pytest.mark.parametrize(
    ("call", "answer"),
    (
        ("repeat('ab', 3)", "ababab"),
        ("repeat(repeat('ab', 2), 2)", "abababab"),
        ("lpad('ab', 4)", "  ab"),
        ("rpad('ab', 4, 'x')", "abxx"),
        ("repeat('a', 2000000000)", None),
        ("lpad('a', 2000000000)", None),
        ("length(repeat(repeat('a', 1000000), 1000000))", None),
    ),
)
def test_a_long_text_is_null_instead_of_all_memory(db: Database, call: str, answer: str | None) -> None:
    assert db.execute(f"SELECT {call} AS x").table.to_pylist() == [{"x": answer}]
