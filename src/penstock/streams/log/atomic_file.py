"""Putting a file in its place so that it is complete or absent: written aside, synced, renamed, folder synced."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path

from penstock.disk_sync import sync_file, sync_folder
from penstock.errors import PenstockError, error
from penstock.streams.log.segments import ASIDE

CrashPoint = Callable[[str], None]


class FolderNotSynced(OSError):
    """The file is visible but may not survive a power cut; the writer must not go on as if the write had failed."""


def no_crash(step: str) -> None:
    """The crash point of production: nothing happens. Tests end the process here."""


def store(
    temporary: Path,
    target: Path,
    write: Callable[[Path], object],
    crash_point: CrashPoint = no_crash,
    at: str = "store",
) -> None:
    """Let `write` fill a file under `temporary`, then make it appear as `target`, durably.

    On any failure before the rename nothing is left and the exception goes on. A folder that cannot be synced
    after the rename raises FolderNotSynced.
    """
    temporary.mkdir(parents=True, exist_ok=True)
    # Executors of a cluster share the folder, and may share process ids as well.
    aside = temporary / f"{ASIDE}{uuid.uuid4().hex}"
    try:
        crash_point(f"{at}:begin")
        write(aside)
        crash_point(f"{at}:written")
        sync_file(aside)
        crash_point(f"{at}:synced")
        os.rename(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    crash_point(f"{at}:renamed")
    try:
        sync_folder(target.parent)
    except OSError as problem:
        raise FolderNotSynced(problem.errno, str(problem)) from problem
    crash_point(f"{at}:folder_synced")


def make_folder(folder: Path) -> None:
    """Create a folder that survives a power cut."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def sweep(temporary: Path) -> int:
    """Remove what a crashed writer left half-written; returns how many files."""
    left = list(temporary.glob(f"{ASIDE}*")) if temporary.is_dir() else []
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)


def as_storage_error(problem: BaseException) -> PenstockError:
    """What a sender is told when its rows could not be written."""
    if isinstance(problem, PenstockError):
        return problem
    if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return error("disk_full", hint="free space or add retention; ingest goes on by itself once there is room")
    told = error("internal_error", detail=f"the log could not be written: {problem}")
    told.__cause__ = problem
    return told
