"""One server with Spark for the tests of this package that need no fresh one: each start takes ten seconds of a processor.

Its data folder is one of an earlier version, on a small disk of its own. The files use it in the order of their names: the
folder's answers first, then the documentation's examples, then what a full disk does to it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Connection
from tests.support.server_process import ServerProcess, server_process
from tests.upgrade.test_earlier_versions import VERSIONS, unpack

SIZE_MB = 96
# Tests wait for each answer of Spark SQL: with the usual budget it would rest for three times its work.
ENVIRONMENT = {"PENSTOCK_SPARK_QUERY_BUDGET": "0.9"}
OPENED = VERSIONS[-1]


@pytest.fixture(scope="package")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | None]:
    """A file system of its own, because a test must not fill anybody else's; None where it cannot be mounted."""
    place = tmp_path_factory.mktemp("disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(scope="package")
def server(small_disk: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("live"), environment=ENVIRONMENT) as process:
        if small_disk is not None:
            process.data = small_disk / "data"
        unpack(OPENED, process.data.parent)
        process.start()
        yield process


def clear(db: Connection) -> None:
    """Drop everything that was defined."""
    for query in db.queries():
        db.sql(f'DROP QUERY IF EXISTS "{query["name"]}" CASCADE')
    for table in db.tables():
        db.sql(f'DROP TABLE "{table["name"]}" CASCADE')
    for kind in ("STREAM TYPE", "FUNCTION"):
        for row in db.sql(f"SHOW {kind}S").rows():
            db.sql(f'DROP {kind} "{row["name"]}" CASCADE')
