"""The data folder: where everything is, which format it has, and that one server owns it."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.folder_format import FORMAT_VERSION, read_format, read_id, write_format
from penstock.errors import error, too_new
from penstock.manifest import MANIFEST
from penstock.operators.join.steps.orphaned_buffers import PREFIX, SHARED, claim, is_of, remove_places_of_the_dead

_log = logging.getLogger("penstock.folder")
UNFINISHED = "unfinished"  # a file in a backup that is still being written
# Containers often have 64 MB: then the folder's own disk, through the page cache, does better.
SHARED_MEMORY_MIN_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Paths inside one data folder. A plain value: workers get it as text and build it again."""

    root: Path

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def commits(self) -> Path:
        return self.root / "commits"

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def sinks(self) -> Path:
        """How far each sink has come, and what it has not delivered yet."""
        return self.root / "sinks"

    @property
    def outbox(self) -> Path:
        """Where sinks write files, unless a setting names another folder."""
        return self.root / "out"

    @property
    def inbox(self) -> Path:
        """Files that addresses of sensors may name, unless a setting names another folder."""
        return self.root / "in"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def checkpoints(self) -> Path:
        """Spark's checkpoint, a folder for each start of the streaming query: see `new_checkpoint`."""
        return self.tmp / "checkpoint"

    @property
    def buffers(self) -> Path:
        """Soft state of this host: a link into shared memory where there is enough of it."""
        return self.tmp / "buffers"

    @property
    def sheets(self) -> Path:
        """Soft answers that tasks leave for the server: see `place_sheets`."""
        return self.tmp / "sheets"

    def read_id(self) -> str:
        return read_id(self.root)


class FolderLock:
    """Locks the folder for this process until `release`, and creates its missing subfolders."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        root = folder.root
        check_finished(root)
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.read(self._file, 32).decode().strip() or "unknown"
            os.close(self._file)
            raise error(
                "folder_in_use", pid=pid, folder=str(root), hint="stop it, or choose another folder with --data"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        os.set_inheritable(self._file, False)
        close_to_others(root)
        try:
            self._check_format(root)
        except BaseException:
            os.close(self._file)
            raise
        (root / MANIFEST).unlink(missing_ok=True)  # a backup that is opened is a data folder from now on
        for part in (folder.journal, folder.log, folder.commits, folder.results):
            part.mkdir(exist_ok=True)
        _remove_shared(folder.buffers, root)  # of a server that was killed
        _remove_shared(folder.sheets, root)
        shutil.rmtree(folder.tmp, ignore_errors=True)
        folder.tmp.mkdir()
        shutil.rmtree(root / "checkpoint", ignore_errors=True)  # of a release that resumed from it
        remove_places_of_the_dead()
        shared = _shared_memory()
        if shared is not None:
            folder.buffers.symlink_to(shared)
            claim(shared, root, server=True)

    def _check_format(self, root: Path) -> None:
        if not (root / "folder_id").exists() and not any((root / "commits").glob("*.arrow")):
            write_format(root, uuid.uuid4().hex)  # with commit records, they know it: `recover_commits`
        found = read_format(root)
        if found is not None and found > FORMAT_VERSION:
            raise too_new(f"it has format {found}, and this version reads up to {FORMAT_VERSION}")

    def release(self) -> None:
        _remove_shared(self.folder.buffers, self.folder.root)
        _remove_shared(self.folder.sheets, self.folder.root)
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)


def close_to_others(root: Path) -> None:
    """Set the mode of a folder to 0700. Then no other account can reach the files in it, whatever their modes."""
    mode = stat.S_IMODE(root.stat().st_mode)
    if mode & 0o077 == 0:
        return
    try:
        root.chmod(0o700)
    except OSError as problem:
        _log.warning("%s is open to other accounts (mode %o) and cannot be closed: %s", root, mode, problem.strerror)
    else:
        _log.warning("%s was open to other accounts (mode %o); it is 700 now", root, mode)


def check_finished(root: Path) -> None:
    """Refuse an unfinished backup as a data folder: some of its readings and definitions are missing."""
    if (root / UNFINISHED).exists():
        hint = "take another one; the next backup to the same place removes this one"
        raise error("unfinished_backup", folder=str(root), hint=hint)


def place_sheets(folder: DataFolder, master: str) -> None:
    """Where tasks leave bit matrices for the server: in shared memory if all run on its host, else in the data folder."""
    if folder.sheets.is_symlink() or folder.sheets.is_dir():
        return
    folder.tmp.mkdir(exist_ok=True)
    alone = master == "local" or master.startswith("local[")
    shared = _shared_memory() if alone else None
    if shared is not None:
        folder.sheets.symlink_to(shared)
        claim(shared, folder.root, server=True)
    else:
        folder.sheets.mkdir()


def _shared_memory() -> Path | None:
    """A new place in shared memory, ours alone. On a cluster the same link leads into each host's own."""
    space = None
    with contextlib.suppress(OSError):
        space = os.statvfs(SHARED)
    if space is None or space.f_frsize * space.f_blocks < SHARED_MEMORY_MIN_BYTES:
        return None
    place = SHARED / f"{PREFIX}{uuid.uuid4().hex}"  # never one that another account could have prepared
    try:
        place.mkdir(mode=0o700)
    except OSError:
        return None
    return place


def _remove_shared(link: Path, root: Path) -> None:
    """Remove what a link into shared memory leads to, if it is this folder's."""
    if link.is_symlink():
        place = Path(os.readlink(link))
        if place.parent == SHARED and place.name.startswith(PREFIX) and is_of(place, root):
            shutil.rmtree(place, ignore_errors=True)
            link.unlink(missing_ok=True)  # on other hosts of a cluster this marks the same folder as orphaned
