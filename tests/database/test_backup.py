"""Backups that fail: nothing is left that looks like one, and the place can be used again."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.journal import journal_files
from penstock.cli.backup import copy_backup
from penstock.database import backup
from penstock.errors import PenstockError
from penstock.manifest import verify_backup
from tests.support.pipe import Pipe


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("files", [0, 2])
@pytest.mark.parametrize("step", ["snapshot", "copy"])
def test_a_backup_that_fails_half_way_leaves_nothing(
    pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool, files: int, step: str
) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    target = tmp_path / "copies" / "monday"
    if was_there:
        target.mkdir(parents=True)
    copied: list[Any] = []

    def limited(take: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any) -> Any:
            if len(copied) == files:
                raise OSError(errno.ENOSPC, "No space left on device")
            copied.append(arguments)
            return take(*arguments)

        return write

    with monkeypatch.context() as full:
        if step == "snapshot":
            full.setattr(shutil, "copy2", limited(shutil.copy2))
        else:
            full.setattr(os, "fsync", limited(os.fsync))  # of each file that is copied
        with pytest.raises(PenstockError) as refused:
            pipe.db.backup(target)
    assert refused.value.condition == "engine_failed" and "No space left" in refused.value.message
    assert target.exists() == was_there and not any(target.glob("*"))
    assert [path.name for path in target.parent.iterdir()] == ["monday"] * was_there
    assert not list(pipe.db.folder.tmp.glob("backup-*")) and pipe.db.backups == {}
    assert pipe.answer("seen") == [1.0, 2.0]
    pipe.db.backup(target)
    other = Pipe(target)
    assert other.answer("seen") == [1.0, 2.0]
    other.db.stop()


class Killed(BaseException):
    """Where the process ends: nothing after it runs, nothing is taken away."""


def is_folder(descriptor: int) -> bool:
    """A backup syncs its folders when all files are written."""
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def test_a_server_that_is_killed_leaves_nothing_that_looks_like_a_backup(
    pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.probes()
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    target, half = tmp_path / "copies" / "monday", tmp_path / "copies" / "monday.unfinished"

    sync = os.fsync

    def killed(descriptor: int) -> None:
        if is_folder(descriptor):
            raise Killed
        sync(descriptor)

    with monkeypatch.context() as life:
        life.setattr(os, "fsync", killed)
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
    sync = os.fsync

    def meanwhile(descriptor: int) -> None:
        if is_folder(descriptor) and not refused:
            with pytest.raises(PenstockError) as second:
                pipe.db.backup(tmp_path / "copy")
            refused.append(second.value)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
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


def flip_bits(folder: Path) -> int:
    """Change a byte in the middle of every file; how many there were."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    for path in files:
        with path.open("r+b") as stream:
            stream.seek(path.stat().st_size // 2)
            byte = stream.read(1)
            stream.seek(-1, 1)
            stream.write(bytes([byte[0] ^ 0x10]))
    return len(files)


def filled(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    for value in range(20):
        pipe.push(float(value))
    pipe.engine.drain()


def test_rot_after_a_backup_does_not_reach_it(pipe: Pipe, tmp_path: Path) -> None:
    filled(pipe)
    pipe.db.backup(tmp_path / "copy")
    assert flip_bits(pipe.folder / "log") and flip_bits(pipe.folder / "commits") and flip_bits(pipe.folder / "journal")
    copy_backup(tmp_path / "copy", tmp_path / "data")
    other = Pipe(tmp_path / "data")
    assert other.answer("seen") == [float(value) for value in range(20)]
    other.db.stop()


def test_a_backup_that_rots_is_not_restored(pipe: Pipe, tmp_path: Path) -> None:
    filled(pipe)
    pipe.db.backup(tmp_path / "copy")
    files = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    for path in files:
        content = path.read_bytes()
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        with pytest.raises(PenstockError) as refused:
            copy_backup(tmp_path / "copy", tmp_path / "data")
        assert refused.value.condition == "damaged_backup" and path.name in refused.value.message
        assert not (tmp_path / "data").exists()
        assert [path.name in problem for problem in verify_backup(tmp_path / "copy")] == [True]
        path.write_bytes(content)
    (tmp_path / "copy" / "log" / "1").rename(tmp_path / "gone")
    with pytest.raises(PenstockError, match="is missing"):
        copy_backup(tmp_path / "copy", tmp_path / "data")
    assert len(copy_backup(tmp_path / "copy", tmp_path / "half", accept_damage=True)) == 20
    (tmp_path / "gone").rename(tmp_path / "copy" / "log" / "1")
    (tmp_path / "copy" / "log" / "1" / "more.arrow").touch()
    with pytest.raises(PenstockError, match=r"more.arrow is not in the manifest"):
        copy_backup(tmp_path / "copy", tmp_path / "data")
    (tmp_path / "copy" / "log" / "1" / "more.arrow").unlink()
    assert verify_backup(tmp_path / "copy") == []
    assert copy_backup(tmp_path / "copy", tmp_path / "data") == []


def test_damage_in_the_live_folder_is_named_by_the_backup(pipe: Pipe, tmp_path: Path) -> None:
    filled(pipe)
    damaged = sorted((pipe.folder / "log" / "1").glob("*.arrow"))[3]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:600] + bytes([content[600] ^ 1]) + content[601:])
    problems = pipe.db.backup(tmp_path / "copy")
    assert [damaged.name in problem for problem in problems] == [True]
    copy_backup(tmp_path / "copy", tmp_path / "data")  # the rest is as good as it was


def test_only_the_owner_reads_a_backup(pipe: Pipe, tmp_path: Path) -> None:
    filled(pipe)
    mask = os.umask(0)
    try:
        pipe.db.backup(tmp_path / "copy")
        copy_backup(tmp_path / "copy", tmp_path / "data")
    finally:
        os.umask(mask)
    for top in (tmp_path / "copy", tmp_path / "data"):
        modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (top, *top.rglob("*"))}
        assert modes == {(True, 0o700), (False, 0o600)}


def test_links_are_made_on_request(pipe: Pipe, tmp_path: Path) -> None:
    filled(pipe)
    pipe.db.backup(tmp_path / "linked", link=True)
    pipe.db.backup(tmp_path / "copied")

    def shared(folder: Path) -> set[str]:
        return {path.suffix for path in folder.rglob("*") if path.is_file() and path.stat().st_nlink > 1}

    assert shared(tmp_path / "linked") == {".arrow"} and shared(tmp_path / "copied") == set()
    copy_backup(tmp_path / "linked", tmp_path / "data")
    assert shared(tmp_path / "data") == set()


def test_a_backup_without_a_manifest_is_of_an_earlier_release(pipe: Pipe, tmp_path: Path) -> None:
    filled(pipe)
    pipe.db.backup(tmp_path / "copy")
    (tmp_path / "copy" / "manifest.json").unlink()
    assert verify_backup(tmp_path / "copy") == ["manifest.json is missing"]
    assert copy_backup(tmp_path / "copy", tmp_path / "data") == []


def test_a_backup_that_a_server_opened_has_no_manifest_any_more(pipe: Pipe, tmp_path: Path) -> None:
    filled(pipe)
    pipe.db.backup(tmp_path / "copy")
    other = Pipe(tmp_path / "copy")
    other.push(99.0)
    other.db.stop()
    copy_backup(tmp_path / "copy", tmp_path / "data")
    other = Pipe(tmp_path / "data")
    other.engine.drain()
    assert other.answer("seen")[-1] == 99.0
    other.db.stop()


def test_no_journal_line_goes_while_a_backup_is_written(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.catalog.write_snapshot()
    pipe.db.execute("INSERT INTO probes VALUES (3, 'west', NULL)")
    pipe.db.catalog.write_snapshot()
    pipe.push(1.0)
    pipe.engine.drain()
    pipe.db.standing.write_snapshot()
    pipe.engine.commits.prune(pipe.db.standing.store.cycle)
    before = journal_files(pipe.folder)
    pipe.db.backups["somewhere"] = backup.BackupProgress()
    pipe.db._tidy()
    removed = [file for file in before if file not in journal_files(pipe.folder)]
    assert removed == []
    del pipe.db.backups["somewhere"]
    pipe.db._tidy()
    removed = [file for file in before if file not in journal_files(pipe.folder)]
    assert len(removed) == 1
