"""Back up the data folder while the server runs.

First it makes a snapshot of the data folder in `tmp`: segments and commit records are immutable, so they are hard-linked; the
journal is copied under the log's write lock, which is held for that long only. Then it copies every byte of the snapshot,
checks its seal and writes its SHA-256 to the manifest: later damage does not reach the backup, and damage in the backup is
noticed. The checkpoint is left out: a restored folder resumes from its last commit record.

The backup is written beside its target and renamed when it is complete and synced. A server that is killed meanwhile leaves a
folder with the name and the mark of an unfinished backup, and the next backup to the same target removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.cycle.folder import UNFINISHED, DataFolder
from penstock.database.verification import verify_data
from penstock.disk_sync import sync_folder
from penstock.errors import error
from penstock.manifest import FileSum, copy_file, list_files, write_manifest
from penstock.streams.log.stream_log import StreamLog


@dataclass(slots=True)
class BackupProgress:
    """How far the backup that is being written has come."""

    files: int = 0
    bytes: int = 0
    total_bytes: int = 0

    def take(self, count: int) -> None:
        self.bytes += count


def back_up(folder: DataFolder, log: StreamLog, target: Path, link: bool, progress: BackupProgress) -> list[str]:
    """Write a folder to `target` that `penstock serve --data target` can open.

    What comes back are the files that were damaged before, a sentence each: they are copied as they are. With `link`,
    immutable files are hard links where that is possible: fast, small, and no help against rot.
    """
    if os.path.exists(target) and (not target.is_dir() or any(target.iterdir())):
        raise error("already_exists", kind="folder", name=str(target), hint="name a folder that is not there yet")
    with _half_written(target) as aside:
        try:
            with _snapshot(folder, log) as snapshot:
                damaged = _copy_snapshot(snapshot, aside, link, progress)
            _sync_tree(aside)
            (aside / UNFINISHED).unlink()
            aside.rename(target)  # also onto an empty folder
            sync_folder(target.parent)
            return damaged
        except OSError as cause:
            detail = f"the backup could not be finished, and nothing of it is left: {cause}"
            raise error("engine_failed", detail=detail, hint="see whether its disk is full, or name another") from cause


@contextlib.contextmanager
def _half_written(target: Path) -> Iterator[Path]:
    """An empty folder beside the target, used by this backup only; it is removed afterwards unless it was renamed."""
    aside = target.with_name(f"{target.name}.{UNFINISHED}")
    try:
        aside.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside.chmod(0o700)
        begun = (aside / UNFINISHED).exists()
        if not begun and any(aside.iterdir()):
            # Without a mark it is complete: a folder of another program, or a backup that is being renamed right now.
            hint = "a backup is written there before it gets its name; name another, or move that folder"
            raise error("already_exists", kind="folder", name=str(aside), hint=hint)
        # An existing folder is never created again: it would be inside a folder that was renamed meanwhile.
        mark = os.open(aside / UNFINISHED, os.O_RDWR | (0 if begun else os.O_CREAT), 0o600)
    except (OSError, ValueError) as cause:  # no right to, too long a name
        raise error("invalid_parameter", detail=f"there can be no folder at {str(target)!r}: {cause}") from cause
    try:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = os.fstat(mark).st_nlink > 0
        except OSError:
            alone = False
        if not alone:  # another one holds the mark, or had it until now
            raise error("too_busy", detail=f"another backup to {target} is being written")
        try:
            _clear(aside)  # what a server that was killed had written
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    finally:
        os.close(mark)


def _clear(aside: Path) -> None:
    for entry in aside.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != UNFINISHED:
            entry.unlink()


@contextlib.contextmanager
def _snapshot(folder: DataFolder, log: StreamLog) -> Iterator[Path]:
    """The data folder at one moment: links that keep files alive which compaction or retention removes meanwhile."""
    place = folder.tmp / f"backup-{uuid.uuid4().hex}"
    try:
        place.mkdir(parents=True, mode=0o700)
        _link_folder(folder.root, log, place)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy_snapshot(snapshot: Path, target: Path, link: bool, progress: BackupProgress) -> list[str]:
    """Copy and sum every file; the damaged ones."""
    names = list(list_files(snapshot))
    progress.total_bytes = sum((snapshot / name).stat().st_size for name in names)
    for at, _, _ in os.walk(snapshot):
        (target / Path(at).relative_to(snapshot)).mkdir(mode=0o700, exist_ok=True)
    sums: dict[str, FileSum] = {}
    damaged: list[str] = []
    for name in names:
        source, copy = snapshot / name, target / name
        if link and _is_immutable(source) and _linked(source, copy):
            sums[name] = FileSum(copy.stat().st_size, None)
            progress.take(sums[name].size)
        else:
            sums[name] = copy_file(source, copy, progress.take)
            try:
                verify_data(copy)  # it may carry checksums of its own
            except (pa.ArrowException, OSError, ValueError) as problem:
                detail = str(problem).split("\n", 1)[0]
                damaged.append(f"{name}: {detail}")
        progress.files += 1
    write_manifest(target, sums, damaged)
    return damaged


def _link_folder(root: Path, log: StreamLog, target: Path) -> None:
    # Records before the log: what they name is there by then, and the log is only ever ahead of them. Results before and
    # after: those that records name may be removed while we copy, and new ones come.
    _copy_tree(root / "results", target / "results")
    _copy_tree(root / "commits", target / "commits")
    with log.still():
        _copy_tree(root / "journal", target / "journal")
        for name in ("log", "results", "streams", "rollups"):
            _copy_tree(root / name, target / name)
    # The same accounts can sign in to the copy: a copy without accounts would leak the data.
    _copy_tree(root / "security", target / "security")
    for name in ("format_version", "folder_id"):
        shutil.copy2(root / name, target / name)


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700, exist_ok=True)
    try:
        entries = sorted(source.iterdir())
    except FileNotFoundError:
        return  # nothing of the kind was ever written, or its table was dropped a moment ago
    for entry in entries:
        if entry.is_dir():
            _copy_tree(entry, target / entry.name)
        elif not (target / entry.name).exists():
            with contextlib.suppress(FileNotFoundError):  # compaction or pruning replaced it; that is copied, too
                if not (_is_immutable(entry) and _linked(entry, target / entry.name)):
                    shutil.copy2(entry, target / entry.name)


def _is_immutable(path: Path) -> bool:
    return path.suffix in (".arrow", ".parquet")


def _linked(source: Path, target: Path) -> bool:
    """Whether a hard link could be made; not across disks, say. FileNotFoundError where the source is gone."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _sync_tree(folder: Path) -> None:
    """A whole name must not come before whole files after a power cut. Files were synced as they were written."""
    for at, _, _ in os.walk(folder):
        sync_folder(Path(at))
