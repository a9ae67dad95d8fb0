"""The format of a data folder: which one this version writes, and how a folder of an older one is marked as new.

1: the first. 2: journal lines are chained by hashes, the journal has snapshots and several files, and seals of Arrow files cover
their metadata. 3: the journal has run plans, plans have mining functions, and snapshots name files of cells. 4: plans have branches,
window functions, sessions, landmarks, KEEP and aggregates of users; definitions have lateness, priority and `bounded`; offsets say where queries of
class low stand. A folder of an older format opens, and is of this one from the first write on.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from penstock.disk_sync import replace_file

FORMAT_VERSION = 4
_FILE = "format_version"
_ID = "folder_id"
_IS_ID = re.compile(r"[0-9a-f]{32}")


def read_format(root: Path) -> int | None:
    """The format that a folder says it has; None where it says nothing that can be read.

    From format 2 on it is also in the file of the folder's id, under a checksum. That one is believed.
    """
    try:
        return int(_id_lines(root)[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return int((root / _FILE).read_text())
    except (OSError, ValueError):
        return None


def read_id(root: Path) -> str:
    """The folder's id."""
    return (root / _ID).read_text(errors="replace").partition("\n")[0].strip()


def is_id_whole(root: Path) -> bool:
    """Whether the folder's id is the one that was written, as far as that can be known."""
    try:
        return bool(_id_lines(root))
    except (OSError, ValueError):
        return False


def write_format(root: Path, folder_id: str) -> None:
    """Say that the folder has this id and the format of this version."""
    text = f"{folder_id}\n{FORMAT_VERSION}\n"
    replace_file(root / _ID, f"{text}{zlib.crc32(text.encode()):08x}\n".encode(), synced=True)
    replace_file(root / _FILE, f"{FORMAT_VERSION}\n".encode(), synced=True)


def upgrade_format(root: Path) -> None:
    """Called before the first write of a process: what it writes an older version cannot read."""
    found = read_format(root)
    if found is not None and found < FORMAT_VERSION:
        write_format(root, read_id(root))


def _id_lines(root: Path) -> list[str]:
    """Id and format; ValueError where they are not what was written. Format 1 has the id alone."""
    lines = (root / _ID).read_text().splitlines()
    if len(lines) == 1 and _IS_ID.fullmatch(lines[0]):
        return lines
    text = "".join(f"{line}\n" for line in lines[:2])
    if len(lines) != 3 or lines[2] != f"{zlib.crc32(text.encode()):08x}":
        raise ValueError(lines)
    return lines[:2]
