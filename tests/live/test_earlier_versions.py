"""A folder of an earlier version on a real server: also what Spark alone answers is as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.folders.test_earlier_versions import VERSIONS, unpack
from tests.support.folder_fixture import FOLDERS, ON_SPARK, QUERIES, settled
from tests.support.server_process import server_process


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_server_answers_from_a_folder_of_an_earlier_version(version: str, tmp_path: Path) -> None:
    unpack(version, tmp_path)
    with server_process(tmp_path) as server:
        server.start()
        with server.connect() as db:
            assert settled(db, [*QUERIES, *ON_SPARK], pause_s=0.5) == json.loads(
                (FOLDERS / f"{version}.json").read_text()
            )
        server.stop()
