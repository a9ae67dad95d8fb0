"""The journal: every definition in the order it came, one JSON line each, synced before anybody hears of it.

A line carries its own crc32, so a torn tail is seen for what it is. The writer cuts such a tail off when it opens;
a reader in another process takes it for a line that is not there yet. A bad line before the last is damage.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from penstock.errors import error

_log = logging.getLogger("penstock.catalog")


@dataclass(frozen=True, slots=True)
class Entry:
    """One definition: its place in the total order, the log heads at that moment, and what it says."""

    pos: int
    kind: str
    heads: dict[int, int]
    at_us: int
    body: dict[str, Any]


def journal_file(folder: Path) -> Path:
    return folder / "journal" / "journal.jsonl"


def _encode(entry: Entry) -> bytes:
    text = orjson.dumps(
        {
            "pos": entry.pos,
            "kind": entry.kind,
            "heads": {str(k): v for k, v in entry.heads.items()},
            "at": entry.at_us,
            "body": entry.body,
        }
    )
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _decode(line: bytes) -> Entry | None:
    """The entry of a whole line, or None where the crc does not fit."""
    if len(line) < 10 or line[8:9] != b" ":
        return None
    try:
        expected = int(line[:8], 16)
    except ValueError:
        return None
    text = line[9:].rstrip(b"\n")
    if zlib.crc32(text) != expected:
        return None
    data = orjson.loads(text)
    heads = {int(k): v for k, v in data["heads"].items()}
    return Entry(data["pos"], data["kind"], heads, data["at"], data["body"])


class JournalReader:
    """Reads on from where it stopped; costs one stat when nothing is new."""

    def __init__(self, folder: Path) -> None:
        self._file = journal_file(folder)
        self._offset = 0
        self._waiting: list[Entry] = []
        self._last = 0

    def read(self, upto: int | None = None) -> list[Entry]:
        """Entries after the last one returned, up to and including position `upto`."""
        self._fetch()
        if upto is None:
            found, self._waiting = self._waiting, []
            return found
        count = sum(1 for e in self._waiting if e.pos <= upto)
        found, self._waiting = self._waiting[:count], self._waiting[count:]
        return found

    def head(self) -> int:
        self._fetch()
        return self._last

    def _fetch(self) -> None:
        try:
            size = os.stat(self._file).st_size
        except FileNotFoundError:
            return
        if size <= self._offset:
            return
        with self._file.open("rb") as stream:
            stream.seek(self._offset)
            block = stream.read()
        end = block.rfind(b"\n") + 1
        lines = block[:end].split(b"\n")[:-1]
        for number, line in enumerate(lines):
            entry = _decode(line)
            if entry is None:
                if number == len(lines) - 1 and end == len(block):
                    return
                raise error("corrupt_journal", position=self._last + 1, detail="its checksum does not fit")
            self._offset += len(line) + 1
            self._last = entry.pos
            self._waiting.append(entry)


class JournalWriter:
    """The one writer. Opening cuts a torn tail off."""

    def __init__(self, folder: Path) -> None:
        self._file = journal_file(folder)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        good = self._recover()
        self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if os.fstat(self._descriptor).st_size > good:
            _log.warning("the journal ended in a torn line, which was cut off")
            os.ftruncate(self._descriptor, good)
        os.fsync(self._descriptor)
        self._size = good

    def _recover(self) -> int:
        self.position = 0
        if not self._file.exists():
            return 0
        block = self._file.read_bytes()
        offset = 0
        while offset < len(block):
            end = block.find(b"\n", offset)
            entry = _decode(block[offset:end]) if end >= 0 else None
            if entry is None:
                if end >= 0 and end + 1 < len(block):
                    raise error("corrupt_journal", position=self.position + 1, detail="its checksum does not fit")
                return offset
            self.position = entry.pos
            offset = end + 1
        return offset

    def append(self, kind: str, body: dict[str, Any], heads: dict[int, int], at_us: int) -> Entry:
        return self.append_many([(kind, body)], heads, at_us)[0]

    def append_many(
        self, entries: Iterable[tuple[str, dict[str, Any]]], heads: dict[int, int], at_us: int
    ) -> Sequence[Entry]:
        """Several entries with one sync: all of them or, after a failed write, none."""
        made = [
            Entry(self.position + 1 + number, kind, dict(heads), at_us, body)
            for number, (kind, body) in enumerate(entries)
        ]
        block = b"".join(_encode(e) for e in made)
        try:
            written = 0
            while written < len(block):
                written += os.write(self._descriptor, block[written:])
            os.fsync(self._descriptor)
        except OSError as failure:
            os.ftruncate(self._descriptor, self._size)
            raise error("disk_full") from failure
        self._size += len(block)
        self.position += len(made)
        return made

    def close(self) -> None:
        os.close(self._descriptor)
