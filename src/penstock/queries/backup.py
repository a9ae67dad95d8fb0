"""A copy of the data folder while everything goes on.

Segments and commit records are immutable, so they are hard-linked or copied as they are; the journal is copied
first-to-last under the log's write lock. The checkpoint is left out: a restored folder resumes from its last
commit record.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import error

if TYPE_CHECKING:
    from penstock.queries.database import Database

_WHOLE = ("format_version", "folder_id")


def back_up(database: Database, target: Path) -> None:
    """Write a folder to `target` that `penstock serve --data target` can open."""
    if target.exists() and any(target.iterdir()):
        raise error("already_exists", kind="folder", name=str(target), hint="name a folder that is not there yet")
    was_there = target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        _copy_folder(database, target)
    except BaseException as cause:
        # Half a copy would look like a backup to whoever needs one some day.
        shutil.rmtree(target, ignore_errors=True)
        if was_there:
            target.mkdir(exist_ok=True)
        if isinstance(cause, OSError):
            detail = f"the backup could not be finished, and nothing of it is left: {cause}"
            raise error("engine_failed", detail=detail, hint="see whether its disk is full, or name another") from cause
        raise


def _copy_folder(database: Database, target: Path) -> None:
    root = database.folder.root
    # Records before the log: what they name is there by then, and the log is only ever ahead of them. Results before and
    # after: those that records name may be removed while we copy, and new ones come.
    _copy_tree(root / "results", target / "results")
    _copy_tree(root / "commits", target / "commits")
    with database.log.still():
        _copy_tree(root / "journal", target / "journal")
        for name in ("log", "results", "streams", "rollups"):
            _copy_tree(root / name, target / name)
    # Whoever could sign in can sign in there, too: a copy that is open to everybody would be a leak.
    _copy_tree(root / "security", target / "security")
    for name in _WHOLE:
        shutil.copy2(root / name, target / name)


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    if not source.exists():
        return
    for entry in sorted(source.iterdir()):
        if entry.is_dir():
            _copy_tree(entry, target / entry.name)
        else:
            if (target / entry.name).exists():
                continue
            try:
                _link_or_copy(entry, target / entry.name)
            except FileNotFoundError:
                continue  # compaction or pruning replaced it; what replaced it is copied too


def _link_or_copy(source: Path, target: Path) -> None:
    if source.suffix in (".arrow", ".parquet"):
        try:
            os.link(source, target)
            return
        except OSError:
            pass
    shutil.copy2(source, target)
