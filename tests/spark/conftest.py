"""One database with real Spark, in this process, for all tests of the package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger

from penstock.database.database import Database
from penstock.server.routes.queries import quoted
from penstock.settings import Settings
from penstock.views.standing_queries import Intervals
from tests.oracle.on_spark import RUN_ONCE
from tests.support.spark_lock import one_spark

# A secret in the server's environment, which nothing that runs in Spark may see.
CANARY_NAME, CANARY = "CANARY_DATABASE_URL", "canary-7f3a91"


@pytest.fixture(scope="package")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database that many tests share. Tests of single statements use `db`, which cleans up behind them."""
    with one_spark(), pytest.MonkeyPatch.context() as patch:
        patch.setenv(CANARY_NAME, CANARY)
        # For the log of an error PySpark asks the JVM some thirty times: that takes as long as the error itself.
        patch.setattr(PySparkLogger.getLogger("SQLQueryContextLogger"), "disabled", True)
        # Tests wait for each answer of Spark SQL: with the budget of a server it would rest for three times its work.
        folder = tmp_path_factory.mktemp("pipeline") / "data"
        settings = Settings(data=str(folder), spark_master="local[2]", spark_query_budget=0.9)
        # A cycle that comes late on a busy machine is waited for: no test reads an answer without its own writes.
        made = Database(settings, intervals=Intervals(own_writes_s=60.0))
        made.start()
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture
def db(database: Database) -> Iterator[Database]:
    """The shared database; everything that a test defines in it is dropped afterwards."""
    yield database
    clear(database)


@pytest.fixture
def judge(database: Database) -> Iterator[None]:
    """For tests in which Spark only judges what kernels answer: its questions run once each, over few rows, uncompiled."""
    spark = database.engine.spark
    assert spark is not None
    usual = {name: spark.conf.get(name) for name in RUN_ONCE}
    for name, value in RUN_ONCE.items():
        spark.conf.set(name, value)
    yield
    for name, value in usual.items():
        spark.conf.set(name, value)


def clear(database: Database) -> None:
    state = database.catalog.state
    for name in list(state.queries):
        database.execute(f"DROP QUERY IF EXISTS {quoted(name)} CASCADE")
    for name in list(state.tables):
        database.execute(f"DROP TABLE IF EXISTS {quoted(name)} CASCADE")
    for name in list(state.stream_types):
        database.execute(f"DROP STREAM TYPE IF EXISTS {quoted(name)} CASCADE")
    for name in list(state.functions):
        database.execute(f"DROP FUNCTION IF EXISTS {quoted(name)} CASCADE")
