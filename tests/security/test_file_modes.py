"""Nothing in the data folder, in shared memory or beside it can be read by other accounts of the machine."""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from penstock.cli import serve as serve_command
from penstock.cli.backup import copy_backup
from penstock.cycle.folder import DataFolder, FolderLock
from tests.support.pipe import Pipe


def open_to_others(root: Path) -> list[str]:
    """Files and folders below `root`, and itself, that a group or other accounts may use, with their modes."""
    found = [root, *root.rglob("*")]
    modes = [(path, stat.S_IMODE(path.lstat().st_mode)) for path in found if not path.is_symlink()]
    return [f"{path.relative_to(root)} {mode:o}" for path, mode in modes if mode & 0o077]


@pytest.fixture
def private() -> Iterator[None]:
    """The umask under which the server runs, as a careless one would not set it."""
    before = os.umask(0o022)
    serve_command.keep_files_private()
    yield
    os.umask(before)


def test_all_files_of_a_server_at_work_are_its_own(private: None, tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "data")
    pipe.probes("WITH (retention = '1 HOUR')")
    pipe.db.execute("CREATE QUERY hot AS SELECT id, value FROM probes WHERE value > 1 BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute("CREATE SINK kept FOR hot TO files (folder = 'kept', max_age = '1 MS')")
    pipe.push(2.0, 3.0)
    pipe.engine.drain()
    pipe.db.backup(tmp_path / "backup")
    try:
        for place in (pipe.folder, tmp_path / "backup"):
            assert open_to_others(place) == []
        for link in (pipe.db.folder.buffers, pipe.db.folder.sheets):
            if link.is_symlink():
                assert open_to_others(link.resolve()) == []
    finally:
        pipe.db.stop()
    copy_backup(tmp_path / "backup", tmp_path / "restored")
    assert open_to_others(tmp_path / "restored") == []


def test_a_folder_that_was_open_to_others_is_closed_at_the_start_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "data"
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    with caplog.at_level(logging.WARNING):
        FolderLock(DataFolder(root)).release()
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        assert "755" in caplog.text and str(root) in caplog.text
        caplog.clear()
        FolderLock(DataFolder(root)).release()
        assert not caplog.text


def test_serving_begins_with_a_private_umask() -> None:
    before = os.umask(0o022)
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(typer.Exit):
            serve_command.serve(port=taken.getsockname()[1])
        assert os.umask(0o022) == 0o077
    finally:
        os.umask(before)


def test_files_of_a_sink_outside_the_data_folder_have_the_permissions_of_their_folder(
    private: None, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    pipe = Pipe(tmp_path / "data", sink_files=str(shared))
    try:
        pipe.probes()
        pipe.db.execute("CREATE QUERY hot AS SELECT id FROM probes WHERE value > 1 BEGIN (NOW - 1 HOUR) END (NOW)")
        pipe.db.execute("CREATE SINK kept FOR hot TO files (folder = 'a/b', max_size = '1 B')")
        pipe.push(2.0)
        pipe.engine.drain()
        deadline = 60.0
        while not (files := list(shared.rglob("*.parquet"))):
            assert (deadline := deadline - 0.01) > 0
            pipe.db._stopped.wait(0.01)
        assert stat.S_IMODE(files[0].stat().st_mode) == 0o640
        assert [stat.S_IMODE((shared / name).stat().st_mode) for name in ("a", "a/b")] == [0o750, 0o750]
    finally:
        pipe.db.stop()
