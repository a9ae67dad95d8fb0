"""Remove what dead processes leave in a host's shared memory: half-written runs, and buffers and bit matrices of dead servers.

A folder in shared memory names its owner in `.owner`: the data folder (path and id) with the link to it, and the server's
host and process. It is orphaned once that link leads elsewhere or, on the server's own host, once the server is dead. Only
folders of the same user are removed, and never those of another container, since its processes are not visible here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from penstock.catalog.folder_format import read_id
from penstock.clock import file_age_s

SHARED = Path("/dev/shm")
PREFIX = "penstock-"
OWNER = ".owner"
LINKS = ("buffers", "sheets")
# A run is written within seconds; a place is claimed right after it was made.
HALF_WRITTEN_S = 300
CLEAN_EVERY_S = 300
# Buffers that only filling and steps apart use: every step of theirs writes to them.
IDLE_S = 60
_cleaned: dict[Path, float] = {}


def claim(place: Path, root: Path, server: bool = False) -> None:
    """Say which data folder a place in shared memory belongs to; `server`: that its server runs on this host."""
    owner = place / OWNER
    if place.parent == SHARED and not owner.exists():
        place.mkdir(mode=0o700, exist_ok=True)
        host, pid = (_here(), str(os.getpid())) if server else ("", "")
        owner.write_text("".join(f"{part}\n" for part in (root.resolve(), host, _id_of(root), pid)))


def is_of(place: Path, root: Path) -> bool:
    """Whether a place belongs to a data folder: the link in a copy of a folder leads to the place of the first."""
    try:
        owner, _, folder_id, _ = _read_owner(place)
    except FileNotFoundError:
        return True  # of a version that did not claim it
    return owner == root.resolve() and folder_id in ("", _id_of(root))


def clean_now_and_then(buffers: Path, root: Path) -> None:
    """At most once in a while per worker: claim this host's place, and remove what others left."""
    now = time.monotonic()
    if now - _cleaned.get(buffers, -CLEAN_EVERY_S) < CLEAN_EVERY_S:
        return
    _cleaned[buffers] = now
    place = Path(os.path.realpath(buffers))
    with contextlib.suppress(OSError):
        claim(place, root)
    remove_half_written(place)
    remove_places_of_the_dead()


def remove_half_written(place: Path) -> None:
    """Files that a task began and never finished."""
    for aside in place.glob("*/.*.run"):
        with contextlib.suppress(OSError):
            if file_age_s(aside.stat().st_mtime) > HALF_WRITTEN_S:
                aside.unlink()


def remove_idle(buffers: Path, names: Iterable[str]) -> None:
    """Remove buffers without recent writes, of streams that are not needed while their joins run as one."""
    for name in names:
        with contextlib.suppress(OSError):
            if file_age_s((buffers / name).stat().st_mtime) > IDLE_S:
                shutil.rmtree(buffers / name, ignore_errors=True)


def remove_places_of_the_dead() -> None:
    """Remove the buffers and bit matrices of dead servers."""
    for place in SHARED.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if place.stat().st_uid == os.getuid() and _is_left_over(place):
                shutil.rmtree(place, ignore_errors=True)


def _is_left_over(place: Path) -> bool:
    root, host, folder_id, pid = _read_owner(place)
    if host not in ("", _here()):
        return False
    if "" not in (folder_id, _id_of(root)) and folder_id != _id_of(root):
        # Another folder took the path: its link and its lock belong to another server.
        return host != "" and not psutil.pid_exists(int(pid))
    links = [root / "tmp" / name for name in LINKS]
    if not any(link.is_symlink() and Path(os.readlink(link)) == place for link in links):
        # A server that is starting makes the place first and the link after it.
        return file_age_s(place.stat().st_mtime) > HALF_WRITTEN_S
    return host != "" and not psutil.pid_exists(int((root / "lock").read_text()))


def _read_owner(place: Path) -> tuple[Path, str, str, str]:
    """Data folder, host, folder id and process; what an older version did not write is empty."""
    root, host, folder_id, pid, *_ = [*(place / OWNER).read_text().splitlines(), "", "", "", ""]
    return Path(root), host, folder_id, pid


def _id_of(root: Path) -> str:
    try:
        return read_id(root)
    except OSError:
        return ""


def _here() -> str:
    """Where a process id means the same: containers may share a host's name and its memory."""
    return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
