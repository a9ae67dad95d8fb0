"""One server with Spark for the tests of this package that need no fresh one: each start takes ten seconds of a processor.

Its data folder is one of an earlier version, on a small disk of its own. The files use it in the order of their names: the
folder's answers first, behind those of folders of older versions, then the documentation's examples, then what a full disk does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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
def own_folder(small_disk: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the last version, which all files of this package go on with."""
    return unpack(OPENED, small_disk or tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="package")
def process(own_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server, which may run or not, and on another folder."""
    with server_process(tmp_path_factory.mktemp("live"), environment=ENVIRONMENT) as found:
        found.data = own_folder
        yield found


@pytest.fixture(scope="module")
def server(process: ServerProcess, own_folder: Path) -> ServerProcess:
    """The server on the folder that all files share."""
    open_folder(process, own_folder)
    return process


def open_folder(process: ServerProcess, data: Path) -> None:
    """Have the server run on a folder, which may be the one that it already runs on."""
    if process.running and process.data == data:
        return
    if process.running:
        assert process.stop() == 0
    process.data = data
    process.start()
