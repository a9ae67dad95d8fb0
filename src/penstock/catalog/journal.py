"""The journal: every definition in the order it came, one JSON line each, synced before anybody hears of it.

A line carries its own crc32 and says how many lines of its batch follow, so a torn tail is seen for what it is.
The writer cuts such a tail off when it opens; a reader in another process takes it for something that is not
there yet. A bad line before the last is damage.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import orjson

from penstock.damage import damage_of
from penstock.errors import PenstockError, error
from penstock.syncing import sync_folder

_log = logging.getLogger("penstock.catalog")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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


def _encode(entry: Entry, more: int) -> bytes:
    text = orjson.dumps(
        {
            "pos": entry.pos,
            "more": more,
            "kind": entry.kind,
            "heads": {str(k): v for k, v in entry.heads.items()},
            "at": entry.at_us,
            "body": entry.body,
        }
    )
    return b"%08x %s\n" % (zlib.crc32(text), text)


_HEAD = re.compile(rb'\{"pos":(\d+),(?:"more":(\d+),)?')


def _checked(line: bytes) -> tuple[int, int, bytes] | None:
    """Position, how many of its batch follow, and text of a whole line; None where the crc does not fit."""
    try:
        expected = int(line[:8], 16)
    except ValueError:
        return None
    text = line[9:]
    if line[8:9] != b" " or zlib.crc32(text) != expected:
        return None
    head = _HEAD.match(text)
    if head is not None:
        return int(head[1]), int(head[2] or 0), text
    data = orjson.loads(text)
    return data["pos"], data.get("more", 0), text


def _decode(text: bytes) -> Entry:
    data = orjson.loads(text)
    heads = {int(k): v for k, v in data["heads"].items()}
    return Entry(data["pos"], data["kind"], heads, data["at"], data["body"])


class Entries(Sequence[Entry]):
    """Entries that are decoded when somebody looks: as dictionaries they take ten times the room of their lines."""

    def __init__(self, texts: list[bytes]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[Entry]:
        return map(_decode, self._texts)

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> Entries: ...

    def __getitem__(self, index: int | slice) -> Entry | Entries:
        return Entries(self._texts[index]) if isinstance(index, slice) else _decode(self._texts[index])

    def __add__(self, others: Entries) -> Entries:
        return Entries(self._texts + others._texts)


def _scan(block: bytes, last: int) -> tuple[list[bytes], int]:
    """The texts of the whole batches in `block`, which follows position `last`, and the bytes they fill.

    What is left over at the end was torn, or is being written.
    """
    texts: list[bytes] = []
    batch: list[bytes] = []
    whole = offset = 0
    while (end := block.find(b"\n", offset)) >= 0:
        found = _checked(block[offset:end])
        position = last + len(texts) + len(batch) + 1
        if found is None:
            if end + 1 < len(block):
                raise error("corrupt_journal", position=position, detail="its checksum does not fit")
            break
        pos, more, text = found
        if pos != position:
            raise error("corrupt_journal", position=position, detail=f"entry {pos} stands in its place")
        batch.append(text)
        offset = end + 1
        if more == 0:
            texts += batch
            batch, whole = [], offset
    return texts, whole


class JournalReader:
    """Reads on from where it stopped; costs one stat when nothing is new."""

    def __init__(self, folder: Path) -> None:
        self._file = journal_file(folder)
        self._offset = 0
        self._waiting = Entries([])
        self._last = 0

    def read(self, upto: int | None = None) -> list[Entry]:
        """Entries after the last one returned, up to and including position `upto`."""
        return list(self.entries(upto))

    def entries(self, upto: int | None = None) -> Entries:
        """The same, decoded one by one: for who takes in many and keeps none."""
        self._fetch()
        returned = self._last - len(self._waiting)
        count = len(self._waiting) if upto is None else max(0, upto - returned)
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
        if size == self._offset:
            return
        if size < self._offset:
            raise error("corrupt_journal", position=self._last, detail="the file is shorter than it was")
        with self._file.open("rb") as stream:
            stream.seek(self._offset)
            block = stream.read()
        texts, whole = _scan(block, self._last)
        self._offset += whole
        self._last += len(texts)
        self._waiting += Entries(texts)


class JournalWriter:
    """The one writer. Opening cuts a torn tail off and keeps its bytes in `corrupt/`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = journal_file(folder)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self.position = self._size = self._sum = 0
        if self._file.exists():
            block = self._file.read_bytes()
            texts, self._size = _scan(block, 0)
            self.position = len(texts)
            self._sum = zlib.crc32(block[: self._size])
            self._keep_tail(block[self._size :])
        self._descriptor = self._open()
        sync_folder(self._file.parent)
        sync_folder(folder)
        self._unclean = False

    def _keep_tail(self, tail: bytes) -> None:
        if not tail:
            return
        report = damage_of(self._folder)
        kept = report.keep_bytes(f"journal/after-{self.position:012d}", tail)
        detail = f"entry {self.position + 1} was written in part, and no client was told that it was stored"
        report.note(f"journal entry {self.position + 1}", "journal_tail", f"{detail}; kept in {kept.name}", healed=True)

    def _open(self) -> int:
        """The file, cut to what is known to be whole, and synced."""
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.fchmod(descriptor, 0o600)  # options hold passwords of what sensors and sinks are reached through
            if os.fstat(descriptor).st_size > self._size:
                os.ftruncate(descriptor, self._size)
            os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def append(self, kind: str, body: dict[str, Any], heads: dict[int, int], at_us: int) -> Entry:
        return self.append_many([(kind, body)], heads, at_us)[0]

    def append_many(self, entries: Iterable[tuple[str, dict[str, Any]]], heads: dict[int, int], at_us: int) -> Entries:
        """Several entries with one sync: all of them or, after a failed write or a crash, none.

        What comes back was read from the bytes written: it holds what any other process will see.
        """
        given = list(entries)
        lines = [
            _encode(Entry(self.position + 1 + number, kind, heads, at_us, body), len(given) - 1 - number)
            for number, (kind, body) in enumerate(given)
        ]
        texts, size = _scan(b"".join(lines), self.position)
        self._store(b"".join(lines))
        self._size += size
        self.position += len(texts)
        return Entries(texts)

    def _store(self, block: bytes) -> None:
        try:
            if self._descriptor < 0:
                self._reopen()
            if self._unclean:
                os.ftruncate(self._descriptor, self._size)
            self._unclean = True
            written = 0
            while written < len(block):
                written += os.write(self._descriptor, block[written:])
        except OSError as failure:
            self._cut_back()
            raise _storage_error(failure) from failure
        try:
            os.fsync(self._descriptor)
        except OSError as failure:
            # The system may take the same bytes for written from now on: nothing is added to them before they are read again.
            self._cut_back()
            self.close()
            raise _storage_error(failure) from failure
        self._unclean = False
        self._sum = zlib.crc32(block, self._sum)

    def _reopen(self) -> None:
        """After a failed sync: go on only if the file still holds what it held before."""
        with self._file.open("rb") as stream:
            known = stream.read(self._size)
        if len(known) < self._size or zlib.crc32(known) != self._sum:
            detail = "after a sync that failed, the file does not hold what was stored in it"
            raise error("corrupt_journal", position=self.position, detail=detail, hint="restore it from a backup")
        self._descriptor = self._open()
        self._unclean = False

    def _cut_back(self) -> None:
        try:
            if self._descriptor >= 0:
                os.ftruncate(self._descriptor, self._size)
                self._unclean = False
        except OSError:
            # What nobody was promised stays at the end for now; the next append tries again before it writes.
            _log.warning("the journal could not be cut back after a failed write")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _storage_error(failure: OSError) -> PenstockError:
    if failure.errno in _NO_ROOM:
        return error("disk_full", hint="free space and try again; what was defined before is safe")
    return error("internal_error", detail=f"the journal could not be written: {failure.strerror}")
