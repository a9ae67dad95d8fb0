"""Bit matrices: the matches of many queries in one range of rows, as one file of bits that tasks write and the server maps.

A bit matrix is soft state. Its content follows from the log range and the definitions, so it may be lost at any time. The
commit record names it with its queries; where the file is missing, the server evaluates those rows again.

Layout, little-endian, each part padded to 8 bytes: head (int64), queries (int64, ascending), the matrix row of each
(int32), times (int64) and static versions (int32) of the log rows, the matrix (uint64).
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
from pyroaring import BitMap

from penstock.expr.bits import Words, set_bits, words_for

_MAGIC = 0x31_54_45_45_48_53_53_50
_HEAD = 8
_WRITE_BYTES = 1 << 20
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BitMatrix:
    """The matches of `queries` among the rows [first, end) of a table, with the rows' times and static versions."""

    table_id: int
    first: int
    end: int
    queries: Ints  # ascending
    row_of: npt.NDArray[np.int32]
    times: Ints
    vids: npt.NDArray[np.int32]
    words: Words
    # The rows of `words` that count, where not all do: so the writer of a bit matrix needs no copy of them.
    chosen: Ints | None = None

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.queries, self.row_of, self.times, self.vids, self.words))

    def row(self, query_id: int) -> int:
        """Which row of the matrix is a query's; -1 for none."""
        at = int(np.searchsorted(self.queries, query_id))
        return int(self.row_of[at]) if at < len(self.queries) and self.queries[at] == query_id else -1

    def positions(self, row: int) -> Ints:
        """The log positions that a row of the matrix names, ascending."""
        return set_bits(self.words[row]) + self.first


@dataclass(frozen=True, slots=True)
class BitMatrixRef:
    """A bit matrix as a commit record names it: its file, its log range and its queries."""

    table_id: int
    first: int
    end: int
    min_ts: int
    max_ts: int
    file: str | None  # None where it could not be written
    members: BitMap

    def to_bytes(self) -> bytes:
        head = {"end": self.end, "min_ts": self.min_ts, "max_ts": self.max_ts, "file": self.file}
        return orjson.dumps(head) + b"\n" + self.members.serialize()


def name_from_bytes(table_id: int, first: int, payload: bytes) -> BitMatrixRef:
    head, members = payload.split(b"\n", 1)
    facts: dict[str, Any] = orjson.loads(head)
    return BitMatrixRef(
        table_id, first, facts["end"], facts["min_ts"], facts["max_ts"], facts["file"], BitMap.deserialize(members)
    )


def write_matrix(folder: Path, sheet: BitMatrix) -> str | None:
    """Write a bit matrix for the server; its file name, or None where the disk or memory is full."""
    # A task that is run twice writes two files: only the committed one is named.
    name = f"{sheet.table_id}-{sheet.first:016d}-{uuid.uuid4().hex}.sheet"
    aside = folder / f".{name}"
    head = np.zeros(_HEAD, np.int64)
    head[:7] = (
        _MAGIC,
        sheet.table_id,
        sheet.first,
        sheet.end,
        len(sheet.queries),
        len(sheet.words if sheet.chosen is None else sheet.chosen),
        sheet.words.shape[1],
    )
    try:
        os.makedirs(os.path.realpath(folder), mode=0o700, exist_ok=True)
        with open(aside, "wb") as file:
            for part in _file_parts(head, sheet):
                file.write(np.ascontiguousarray(part).data)
                file.write(b"\0" * (-part.nbytes % 8))
        os.rename(aside, folder / name)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        return None
    return name


def _file_parts(head: Ints, sheet: BitMatrix) -> Iterator[npt.NDArray[Any]]:
    yield from (head, sheet.queries, sheet.row_of, sheet.times, sheet.vids)
    if sheet.chosen is None:
        yield sheet.words
        return
    at_once = max(1, _WRITE_BYTES // max(1, 8 * sheet.words.shape[1]))
    for first in range(0, len(sheet.chosen), at_once):
        yield sheet.words[sheet.chosen[first : first + at_once]]


def map_matrix(path: Path) -> BitMatrix | None:
    """A bit matrix as it lies in shared memory; None where it is gone or torn."""
    try:
        # Arrow's map outlives its file, while one of `mmap` keeps a descriptor, and there may be thousands.
        with pa.memory_map(str(path)) as file:
            data = file.read_buffer()
        return _parts_of(np.frombuffer(data, np.uint8))
    except (OSError, ValueError):
        return None


def _parts_of(raw: npt.NDArray[np.uint8]) -> BitMatrix:
    head = raw[: _HEAD * 8].view(np.int64)
    magic, table_id, first, end, count, answers, width = (int(n) for n in head[:7])
    rows = end - first
    if magic != _MAGIC or width != words_for(rows):
        raise ValueError("not a bit matrix")
    at = _HEAD * 8

    def part(dtype: Any, length: int) -> Any:
        nonlocal at
        size = np.dtype(dtype).itemsize * length
        if at + size > len(raw):
            raise ValueError("a torn bit matrix")
        found = raw[at : at + size].view(dtype)
        at += size + -size % 8
        return found

    queries, row_of = part(np.int64, count), part(np.int32, count)
    times, vids = part(np.int64, rows), part(np.int32, rows)
    return BitMatrix(
        table_id, first, end, queries, row_of, times, vids, part(np.uint64, answers * width).reshape(answers, width)
    )
