"""The data folder: where everything is, which format it has, and that one server owns it."""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import error

FORMAT_VERSION = 1
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
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def buffers(self) -> Path:
        """Soft state of this host: a link into shared memory where there is enough of it."""
        return self.tmp / "buffers"

    def read_id(self) -> str:
        return (self.root / "folder_id").read_text().strip()


class FolderLock:
    """Makes the folder this process's own until `release`, and creates what is missing in it."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        root = folder.root
        root.mkdir(parents=True, exist_ok=True)
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
        self._check_format(root)
        for part in (folder.journal, folder.log, folder.commits, folder.results):
            part.mkdir(exist_ok=True)
        self._shared = _shared_memory(folder.read_id())
        shutil.rmtree(folder.tmp, ignore_errors=True)
        folder.tmp.mkdir()
        if self._shared is not None:
            shutil.rmtree(self._shared, ignore_errors=True)
            folder.buffers.symlink_to(self._shared)

    def _check_format(self, root: Path) -> None:
        mark = root / "format_version"
        if not mark.exists():
            (root / "folder_id").write_text(uuid.uuid4().hex + "\n")
            mark.write_text(f"{FORMAT_VERSION}\n")
        found = int(mark.read_text())
        if found > FORMAT_VERSION:
            raise error("folder_too_new", found=found, known=FORMAT_VERSION, hint="install a newer Penstock")

    def release(self) -> None:
        if self._shared is not None:
            shutil.rmtree(self._shared, ignore_errors=True)
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)


def _shared_memory(folder_id: str) -> Path | None:
    """A folder's place in shared memory. On a cluster the same link leads into each host's own."""
    root = Path("/dev/shm")
    try:
        space = os.statvfs(root)
    except OSError:
        return None
    enough = space.f_frsize * space.f_blocks >= SHARED_MEMORY_MIN_BYTES and os.access(root, os.W_OK)
    return root / f"penstock-{folder_id}" if enough else None
