"""Prepare this machine for quick starts: compile the kernels, then start Spark once to write its archive of Java classes.

Machine code goes into Numba's cache (`pipeline.kernel_cache`), Spark's classes into the archive (`pipeline.jvm`). Done once
per environment by `make`, or by `penstock warm-up`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.pipeline.engine import Engine
from penstock.pipeline.jvm import find_archive, find_java, place_for_archive
from penstock.pipeline.kernel_cache import compile_kernels
from penstock.settings import Settings

PATIENCE_S = 180.0
_STORY = (
    "CREATE TABLE training (sensor_id INT PRIMARY KEY, place TEXT, reading STREAM (value DOUBLE, code INT))",
    "INSERT INTO training VALUES (1, 'here', NULL), (2, 'there', NULL)",
    "CREATE QUERY seen AS SELECT place, value FROM training WHERE value > 1 AND place = 'here'"
    " BEGIN (NOW - 1 MINUTE) END (NOW)",
    "CREATE QUERY latest AS SELECT place, value, ts FROM training BEGIN (LAST 1 ROWS PER SENSOR)",
)
_QUESTIONS = (
    "SELECT * FROM seen",
    "SELECT place, AVG(value) AS mean, COUNT(*) AS n FROM training GROUP BY place ORDER BY n",
    "SELECT a.place FROM training a JOIN training b ON a.sensor_id = b.sensor_id WHERE a.value < b.value",
    "SELECT COUNT(*) FROM penstock.cycles",
)


def warm_up(progress: Callable[[str], None], again: bool = False) -> Path:
    """Compile what is not, and run the training unless its archive is there already; where the archive is."""
    compile_kernels(progress)
    java_home = find_java()
    known = find_archive(java_home)
    if known is not None and not again:
        progress("this environment is warm already")
        return known
    target = place_for_archive(java_home)
    aside = target.with_name(f"{os.getpid()}-{target.name}")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-training-") as folder:
            progress("training run with Spark")
            _train(Path(folder) / "data", aside)
            progress("writing the class archive")
        if not aside.is_file():
            raise OSError("this Java wrote no archive")
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
    return target


def _train(folder: Path, archive: Path) -> None:
    database = Database(Settings(data=str(folder)), engine=partial(Engine, train=archive))
    with _silence():
        database.start()
    try:
        for statement in _STORY:
            database.execute(statement)
        for turn in range(5):
            readings = [{"sensor_id": 1 + i % 2, "value": float(i), "code": i} for i in range(100)]
            database.push("training", readings)
            database.wait_for_own_writes()
            _ask(database, _QUESTIONS[turn % len(_QUESTIONS)])
    finally:
        database.stop()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Silence processes that start meanwhile: a JVM that writes an archive prints its whole command line."""
    outputs = [1, 2]
    kept = [os.dup(fd) for fd in outputs]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd in outputs:
            os.dup2(nowhere, fd)
        yield
    finally:
        for fd, before in zip(outputs, kept, strict=True):
            os.dup2(before, fd)
            os.close(before)
        os.close(nowhere)


def _ask(database: Database, question: str) -> None:
    """Ask until there is an answer: without an archive the very first cycle takes a busy machine a while."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            database.execute(question)
            return
        except PenstockError as problem:
            if problem.condition != "not_ready" or time.monotonic() > deadline:
                raise
