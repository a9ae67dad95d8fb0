"""A folder of an earlier version on a real server: also what Spark alone answers is as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.conftest import OPENED
from tests.support.folder_fixture import FOLDERS, ON_SPARK, QUERIES, settled
from tests.support.server_process import ServerProcess
from tests.upgrade.test_earlier_versions import VERSIONS, unpack


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_server_answers_from_a_folder_of_an_earlier_version(
    server: ServerProcess, version: str, tmp_path: Path
) -> None:
    if version == OPENED:
        check(server, version)
        return
    own = server.data
    server.stop()
    server.data = unpack(version, tmp_path)
    server.start()
    check(server, version)
    server.stop()
    server.data = own
    server.start()


def check(server: ServerProcess, version: str) -> None:
    with server.connect() as db:
        said = json.loads((FOLDERS / f"{version}.json").read_text())
        assert said.keys() >= {*QUERIES, *ON_SPARK}
        assert settled(db, list(said), pause_s=0.5) == said
