"""One server with Spark for the tests of this package that can share one: each start takes ten seconds of a processor.

test_kill has a new folder. test_mining and test_operators go on in it, with nothing defined any more. test_poison has a new
folder again, and settings of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.server_process import ServerProcess, clear, server_process


@pytest.fixture(scope="package")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server, which may run or not."""
    with server_process(tmp_path_factory.mktemp("kill"), launcher=("-m", "tests.support.launch")) as found:
        yield found


@pytest.fixture
def cleared(process: ServerProcess) -> ServerProcess:
    """The server, which runs and has no definitions."""
    if not process.running:
        process.start()
    with process.connect() as db:
        clear(db)
    return process


def start_anew(process: ServerProcess, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Start the server on an empty folder."""
    if process.running:
        process.kill_all()
    process.data = folder / "data"
    process.environment = dict(environment or {})
    process.start()
