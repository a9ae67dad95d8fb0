"""A checksum of a Parquet file's footer, and of everything before it, inside the footer itself.

Pages of our Parquet files carry checksums, but the footer does not: it says how many rows there are, where columns lie and which times a
row group has. A writer leaves room for two sums in the footer's metadata, and `seal_footer` fills them in. The sum of the footer
is compared the first time a process opens the file, that of all bytes before it by the scrubber and `penstock check`.
"""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from penstock.streams.log.checksums import is_whole, mark_of, remember_whole

KEY = "penstock.footer"
ROOM = "00000000:00000000"  # the sum of the footer, and that of what is before it
_PLACE = re.compile(rb"penstock\.footer[\x00-\x7f]{1,4}?([0-9a-f]{8}):([0-9a-f]{8})")
_TAIL_BYTES = 8
_PIECE_BYTES = 1 << 20


def seal_footer(path: Path) -> None:
    """Fill in the sums of a file that was written with `KEY: ROOM` in its metadata."""
    with path.open("r+b") as file:
        start, footer = _read_footer(file)
        place = _PLACE.search(footer)
        if place is None:
            raise pa.ArrowInvalid("the footer has no room for a checksum")
        body = b"%08x" % _sum_before(file, start)
        footer = footer[: place.start(2)] + body + footer[place.end(2) :]
        own = b"%08x" % zlib.crc32(footer)
        os.pwrite(file.fileno(), own + b":" + body, start + place.start(1))


def check_footer(path: Path) -> None:
    """Raise ArrowInvalid where the footer is not the one that was written. Files of format 1 have no sum."""
    mark = mark_of(path)
    if is_whole(path, mark):
        return
    with path.open("rb") as file:
        _checked(file)
    remember_whole(path, mark)


def check_file(path: Path) -> bool:
    """Raise ArrowInvalid where any byte is not the one that was written; whether the file has sums at all."""
    with path.open("rb") as file:
        start, body = _checked(file)
        if body is not None and _sum_before(file, start) != int(body, 16):
            raise _changed()
    return body is not None


def _checked(file: BinaryIO) -> tuple[int, bytes | None]:
    start, footer = _read_footer(file)
    place = _PLACE.search(footer)
    if place is None:
        return start, None
    blank = footer[: place.start(1)] + b"00000000" + footer[place.end(1) :]
    if zlib.crc32(blank) != int(place[1], 16):
        raise _changed()
    return start, place[2]


def _read_footer(file: BinaryIO) -> tuple[int, bytes]:
    """Where the footer begins, and the footer with its length."""
    size = file.seek(0, os.SEEK_END)
    if size < 2 * _TAIL_BYTES:
        raise pa.ArrowInvalid("the file is too short")
    file.seek(size - _TAIL_BYTES)
    tail = file.read(_TAIL_BYTES)
    start = size - _TAIL_BYTES - int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or start < 4:
        raise pa.ArrowInvalid("it does not end like a Parquet file")
    file.seek(start)
    return start, file.read(size - start)


def _sum_before(file: BinaryIO, end: int) -> int:
    file.seek(0)
    found = 0
    while end > 0 and (piece := file.read(min(end, _PIECE_BYTES))):
        found, end = zlib.crc32(piece, found), end - len(piece)
    return found


def _changed() -> pa.ArrowInvalid:
    return pa.ArrowInvalid("its checksum is wrong: the file has changed since it was written")
