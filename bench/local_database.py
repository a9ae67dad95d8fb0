"""A database in this process and in a temporary folder, without Spark: cycles run when they are told to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.clock import Clock, WallClock
from penstock.database.database import Database
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine


@contextmanager
def local_database(clock: Clock | None = None, **settings: Any) -> Iterator[tuple[Database, LocalEngine]]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-local-"))
    engines: list[LocalEngine] = []
    time_of = clock or WallClock()

    def make(*arguments: Any) -> Any:
        engines.append(LocalEngine(*arguments, clock=time_of))
        return engines[-1]

    database = Database(Settings(data=str(folder / "data"), group_commit_ms=0, **settings), time_of, engine=make)
    try:
        database.start()
        yield database, engines[0]
    finally:
        database.stop()
        shutil.rmtree(folder, ignore_errors=True)
