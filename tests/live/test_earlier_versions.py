"""A folder of an earlier version on a real server: also what Spark alone answers is as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.conftest import OPENED, open_folder
from tests.support.folder_fixture import FOLDERS, ON_SPARK, QUERIES, settled
from tests.support.server_process import ServerProcess
from tests.upgrade.test_earlier_versions import VERSIONS, unpack


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_server_answers_from_a_folder_of_an_earlier_version(
    process: ServerProcess, own_folder: Path, version: str, tmp_path: Path
) -> None:
    """The last version comes last, and its folder stays open for the other files: one start for each version."""
    open_folder(process, own_folder if version == OPENED else unpack(version, tmp_path))
    with process.connect() as db:
        said = json.loads((FOLDERS / f"{version}.json").read_text())
        assert said.keys() >= {*QUERIES, *ON_SPARK}
        assert settled(db, list(said), pause_s=0.5) == said
