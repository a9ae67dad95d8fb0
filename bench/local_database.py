"""A database in this process, in a temporary folder or one that stays, without Spark: cycles run when they are told to."""

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
def local_database(
    clock: Clock | None = None, folder: Path | None = None, **settings: Any
) -> Iterator[tuple[Database, LocalEngine]]:
    """`folder` is a data folder that stays."""
    temporary = Path(tempfile.mkdtemp(prefix="penstock-local-"))
    engines: list[LocalEngine] = []
    time_of = clock or WallClock()

    def make(*arguments: Any) -> Any:
        engines.append(LocalEngine(*arguments, clock=time_of))
        return engines[-1]

    database = Database(
        Settings(data=str(folder or temporary / "data"), group_commit_ms=0, **settings), time_of, engine=make
    )
    try:
        database.start()
        yield database, engines[0]
    finally:
        database.stop()
        shutil.rmtree(temporary, ignore_errors=True)
