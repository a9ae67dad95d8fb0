"""Snapshots of the catalog: the state after a journal entry in one file, so that the lines up to it can be damaged or gone.

`journal/snapshot-<position>.json.zst` holds every definition, every version of static rows (log rows name them for ever), what
was observed, retained and rolled up, and the journal's chain hash at that entry. A checksum covers all of it.
"""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from penstock.disk_sync import replace_file
from penstock.errors import error

_NAME = re.compile(r"^snapshot-(\d{12})\.json\.zst$")
_HEAD = re.compile(rb"penstock-catalog 1 ([0-9a-f]{8}) (\d+)\n")
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, IndexError, pa.ArrowException)
_POSITION = re.compile(rb'\{"position":(\d+),')  # what its text begins with
_MAX_BYTES = 1 << 34


def snapshot_path(folder: Path, position: int) -> Path:
    return folder / "journal" / f"snapshot-{position:012d}.json.zst"


def list_snapshots(folder: Path) -> list[int]:
    """The positions of all snapshots, ascending, damaged ones too."""
    journal = folder / "journal"
    names = os.listdir(journal) if journal.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := _NAME.match(name)))


def write_snapshot(folder: Path, content: dict[str, Any]) -> Path:
    """Put what `state.snapshot_of` gives in a file, complete or absent."""
    text = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    packed = pa.compress(text, codec="zstd", asbytes=True)
    path = snapshot_path(folder, content["position"])
    head = b"penstock-catalog 1 %08x %d\n" % (zlib.crc32(packed, len(text)), len(text))
    replace_file(path, head + packed, synced=True)
    return path


def read_snapshot(path: Path) -> dict[str, Any]:
    """What a snapshot holds. Raises corrupt_segment where it is not what was written."""
    found: dict[str, Any] = orjson.loads(read_text(path))
    return found


def read_text(path: Path) -> bytes:
    """The same as JSON, which is all that a check of the file needs: no other thread runs while it is parsed."""
    try:
        data = path.read_bytes()
        head = _HEAD.match(data)
        if head is None:
            raise ValueError("its first line is not that of a snapshot")
        packed, size = data[head.end() :], int(head[2])
        if size > _MAX_BYTES or zlib.crc32(packed, size) != int(head[1], 16):
            raise ValueError("its checksum is wrong: the file has changed since it was written")
        text: bytes = pa.decompress(packed, decompressed_size=size, codec="zstd", asbytes=True)
        position = int(_POSITION.match(text)[1])  # type: ignore[index]  # None is a TypeError
        if path != snapshot_path(path.parent.parent, position):
            raise ValueError(f"it is the snapshot of entry {position}")
    except _UNREADABLE as problem:
        raise error("corrupt_segment", segment=f"journal/{path.name}", detail=str(problem)) from problem
    return text
