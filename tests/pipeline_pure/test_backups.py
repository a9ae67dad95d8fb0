"""Backups that fail: nothing is left that looks like one, and the place can be used again."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.backup import copy_backup
from penstock.errors import PenstockError
from penstock.queries import backup
from tests.pipeline_pure.world import Pipe


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("files", [0, 2])
def test_a_backup_that_fails_half_way_leaves_nothing(
    pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool, files: int
) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    target = tmp_path / "copies" / "monday"
    if was_there:
        target.mkdir(parents=True)
    copied: list[Any] = []

    def copy(source: Path, to: Path) -> None:
        if len(copied) == files:
            raise OSError(errno.ENOSPC, "No space left on device")
        copied.append(shutil.copyfile(source, to))

    with monkeypatch.context() as full:
        full.setattr(shutil, "copy2", copy)
        with pytest.raises(PenstockError) as refused:
            pipe.db.backup(target)
    assert refused.value.condition == "engine_failed" and "No space left" in refused.value.message
    assert target.exists() == was_there and not any(target.glob("*"))
    assert [path.name for path in target.parent.iterdir()] == ["monday"] * was_there
    assert pipe.answer("seen") == [1.0, 2.0]
    pipe.db.backup(target)
    other = Pipe(target)
    assert other.answer("seen") == [1.0, 2.0]
    other.db.stop()


class Killed(BaseException):
    """Where the process ends: nothing after it runs, nothing is taken away."""


def test_a_server_that_is_killed_leaves_nothing_that_looks_like_a_backup(
    pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.probes()
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    target, half = tmp_path / "copies" / "monday", tmp_path / "copies" / "monday.unfinished"

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as life:
        life.setattr(backup, "_sync_tree", killed)
        life.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Killed):
            pipe.db.backup(target)
    assert not target.exists() and (half / "format_version").exists() and (half / "journal").is_dir()
    for refused_by in (lambda: copy_backup(half, tmp_path / "data"), lambda: Pipe(half)):
        with pytest.raises(PenstockError, match="was not written to its end") as refused:
            refused_by()
        assert refused.value.condition == "unfinished_backup" and not (tmp_path / "data").exists()
    (half / "log" / "stale.arrow").touch()
    pipe.db.backup(target)
    assert [path.name for path in target.parent.iterdir()] == ["monday"] and not (target / "unfinished").exists()
    assert not (target / "log" / "stale.arrow").exists()
    copy_backup(target, tmp_path / "data")


def test_two_backups_to_one_place_do_not_mix(pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe.probes()
    refused: list[PenstockError] = []
    sync = backup._sync_tree

    def meanwhile(aside: Path) -> None:
        with pytest.raises(PenstockError) as second:
            pipe.db.backup(tmp_path / "copy")
        refused.append(second.value)
        sync(aside)

    monkeypatch.setattr(backup, "_sync_tree", meanwhile)
    pipe.db.backup(tmp_path / "copy")
    assert [r.condition for r in refused] == ["too_busy"] and (tmp_path / "copy" / "journal").is_dir()


def test_a_backup_leaves_alone_what_another_one_finishes_meanwhile(
    pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.probes()
    at_once = backup.fcntl.flock
    waiting: list[int] = []

    def lock(mark: int, how: int) -> None:
        if not waiting:  # the second one has found the first one's mark, and then the first one ends
            waiting.append(mark)
            (tmp_path / "copy.unfinished" / "unfinished").unlink()
            (tmp_path / "copy.unfinished").rename(tmp_path / "copy")
        at_once(mark, how)

    (tmp_path / "copy.unfinished").mkdir()
    (tmp_path / "copy.unfinished" / "unfinished").touch()
    (tmp_path / "copy.unfinished" / "journal").touch()
    monkeypatch.setattr(backup.fcntl, "flock", lock)
    with pytest.raises(PenstockError, match="another backup") as refused:
        pipe.db.backup(tmp_path / "copy")
    assert refused.value.condition == "too_busy"
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["journal"]


def test_a_whole_folder_with_the_name_of_half_a_backup_is_left_alone(pipe: Pipe, tmp_path: Path) -> None:
    pipe.probes()
    pipe.db.backup(tmp_path / "copy.unfinished")
    before = sorted(path.name for path in (tmp_path / "copy.unfinished").iterdir())
    with pytest.raises(PenstockError, match=r'copy\.unfinished" already exists'):
        pipe.db.backup(tmp_path / "copy")
    assert before == sorted(path.name for path in (tmp_path / "copy.unfinished").iterdir()) and "journal" in before
    assert not (tmp_path / "copy").exists()


def test_a_place_where_no_folder_can_be_is_refused(pipe: Pipe, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("a\0b", "x" * 300, "file/copy"):
        with pytest.raises(PenstockError, match="there can be no folder"):
            pipe.db.backup(tmp_path / name)
