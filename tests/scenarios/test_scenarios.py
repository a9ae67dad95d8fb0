"""Behaviour scripts without Spark; tests/spark/test_scenarios.py runs the same files with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.database.database import Database
from tests.scenarios.runner import SCRIPTS, TEN_US, check
from tests.support.pipe import Pipe


class LocalDatabase:
    """A database in this process, whose cycles run when the script says so."""

    has_spark = False

    def __init__(self, folder: Path) -> None:
        self._pipe = Pipe(folder, TEN_US)

    @property
    def db(self) -> Database:
        return self._pipe.db

    def cycle(self) -> None:
        self._pipe.engine.drain()

    def set_clock(self, us: int) -> None:
        self._pipe.clock.advance(us - self._pipe.clock.now_us())

    def restart(self) -> bool:
        self._pipe.restart()
        return True


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalDatabase]:
    made = LocalDatabase(tmp_path / "data")
    yield made
    made.db.stop()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_says_what_it_said(script: Path, engine: LocalDatabase) -> None:
    check(script, engine)
