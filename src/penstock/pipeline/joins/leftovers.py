"""What dead processes leave in a host's shared memory: half-written runs, and the buffers of servers that are gone.

A place in shared memory says in `.owner` whose it is: the host, and the data folder whose link leads to it. It is left over once
that link leads elsewhere or, on the server's own host, once the server is dead. Only places of the same user are touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterable
from pathlib import Path

SHARED = Path("/dev/shm")
PREFIX = "penstock-"
OWNER = ".owner"
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
        owner.write_text(f"{root.resolve()}\n{socket.gethostname() if server else ''}\n")


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
            if time.time() - aside.stat().st_mtime > HALF_WRITTEN_S:
                aside.unlink()


def remove_idle(buffers: Path, names: Iterable[str]) -> None:
    """Of streams that nobody needs while their joins run as one: what was not written to for a while."""
    for name in names:
        with contextlib.suppress(OSError):
            if time.time() - (buffers / name).stat().st_mtime > IDLE_S:
                shutil.rmtree(buffers / name, ignore_errors=True)


def remove_places_of_the_dead() -> None:
    """Buffers of servers that are gone."""
    for place in SHARED.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if place.stat().st_uid == os.getuid() and _is_left_over(place):
                shutil.rmtree(place, ignore_errors=True)


def _is_left_over(place: Path) -> bool:
    root_text, host = (place / OWNER).read_text().splitlines()
    root = Path(root_text)
    link = root / "tmp" / "buffers"
    if not link.is_symlink() or Path(os.readlink(link)) != place:
        # A server that is starting makes the place first and the link after it.
        return time.time() - place.stat().st_mtime > HALF_WRITTEN_S
    return host == socket.gethostname() and not _is_alive(int((root / "lock").read_text()))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
