"""Backups that fail: nothing is left that looks like one, and the place can be used again."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
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
    assert pipe.answer("seen") == [1.0, 2.0]
    pipe.db.backup(target)
    other = Pipe(target)
    assert other.answer("seen") == [1.0, 2.0]
    other.db.stop()
