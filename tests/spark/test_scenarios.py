"""The behaviour scripts of tests/scenarios on Spark, where cycles come as they are due."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.database.database import Database
from tests.scenarios.runner import SCRIPTS, check
from tests.spark.asking import eventually


class SparkDatabase:
    """The database that the tests share. It is not restarted: tests/kill and tests/live start servers of their own."""

    has_spark = True

    def __init__(self, db: Database) -> None:
        self.db = db

    def cycle(self) -> None:
        self.db.wait_for_own_writes()
        eventually(lambda: all(query["state"] in ("RUNNING", "PAUSED") for query in self.db.queries()))

    def set_clock(self, us: int) -> None:
        """Its clock is the wall clock, long after the times of the scripts."""

    def restart(self) -> bool:
        return False


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_says_the_same_as_without_spark(script: Path, db: Database) -> None:
    check(script, SparkDatabase(db))
