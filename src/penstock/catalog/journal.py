"""The journal: every definition in the order it came, one JSON line each, synced before it is acknowledged.

A line carries its own crc32, a hash of all lines before it (`chain`), and how many lines of its batch follow. So a torn tail is
seen for what it is, and a line that was exchanged for another is seen, too. Lines never change. The journal has several
files: the first one, and one that begins after each catalog snapshot (`catalog.snapshot`). Lines that a snapshot covers may be
damaged or gone: readers get an entry of kind `snapshot` in their place.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from penstock.catalog.folder_format import upgrade_format
from penstock.catalog.model import Entry
from penstock.catalog.snapshot import list_snapshots, read_snapshot, snapshot_path
from penstock.damage import damage_of
from penstock.disk_sync import sync_folder
from penstock.errors import PenstockError, error

_log = logging.getLogger("penstock.catalog")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


SNAPSHOT = "snapshot"  # the kind of an entry that stands for all up to its position
NO_CHAIN = "0" * 16  # the hash of no lines
_FILE = re.compile(r"^(\d{12})\.jsonl$")


def journal_file(folder: Path, first: int = 1) -> Path:
    """The file that begins with the entry at a position."""
    return folder / "journal" / ("journal.jsonl" if first == 1 else f"{first:012d}.jsonl")


def journal_files(folder: Path) -> list[tuple[int, Path]]:
    """All files with the position of their first line, in order."""
    journal = folder / "journal"
    names = os.listdir(journal) if journal.is_dir() else []
    found = [(int(match[1]), journal / name) for name in names if (match := _FILE.match(name))]
    return sorted([*found, *([(1, journal_file(folder))] if "journal.jsonl" in names else [])])


def next_chain(chain: str, text: bytes) -> str:
    """The hash of all lines up to this one, from that of the lines before it."""
    return hashlib.sha256(chain.encode() + text).hexdigest()[:16]


def _encode(entry: Entry, more: int, chain: str) -> bytes:
    return orjson.dumps(
        {
            "pos": entry.pos,
            "more": more,
            "chain": chain,
            "kind": entry.kind,
            "heads": {str(k): v for k, v in entry.heads.items()},
            "at": entry.at_us,
            "body": entry.body,
        }
    )


def _line(text: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(text), text)


_HEAD = re.compile(rb'\{"pos":(\d+),(?:"more":(\d+),)?(?:"chain":"([0-9a-f]{16})",)?')


def _checked(line: bytes) -> tuple[int, int, str | None, bytes] | None:
    """Position, how many of its batch follow, chain and text of a whole line; None where the crc does not fit."""
    try:
        expected = int(line[:8], 16)
    except ValueError:
        return None
    text = line[9:]
    if line[8:9] != b" " or zlib.crc32(text) != expected:
        return None
    head = _HEAD.match(text)
    if head is not None:
        return int(head[1]), int(head[2] or 0), head[3].decode() if head[3] is not None else None, text
    data = orjson.loads(text)
    return data["pos"], data.get("more", 0), data.get("chain"), text


def _decode(text: bytes) -> Entry:
    data = orjson.loads(text)
    heads = {int(k): v for k, v in data["heads"].items()}
    return Entry(data["pos"], data["kind"], heads, data["at"], data["body"])


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries that are decoded when they are read: as dictionaries they take ten times the room of their lines."""

    texts: list[bytes]

    def __iter__(self) -> Iterator[Entry]:
        return map(_decode, self.texts)

    def __getitem__(self, index: int) -> Entry:
        return _decode(self.texts[index])


@dataclass(slots=True)
class _Scanned:
    """Whole batches of a block: their texts, the bytes that they fill, the chain after them, and what stopped the scan."""

    texts: list[bytes]
    whole: int
    chain: str
    damage: PenstockError | None = None


def _scan(block: bytes, last: int, chain: str) -> _Scanned:
    """Read the whole batches in `block`, which follows position `last` and lines with the hash `chain`.

    What is left over at the end was torn, or is being written: part of a line, or a batch with a hole. Anything else that
    cannot be read is damage.
    """
    found = _Scanned([], 0, chain)
    batch: list[bytes] = []
    offset = batch_end = 0
    while (end := block.find(b"\n", offset)) >= 0:
        line = _checked(block[offset:end])
        position = last + len(found.texts) + len(batch) + 1
        if line is None:
            if end + 1 < len(block) and not (batch and _is_end_of_batch(block[end + 1 :], batch_end)):
                found.damage = error("corrupt_journal", position=position, detail="its checksum does not fit")
            return found
        pos, more, said, text = line
        if pos != position:
            found.damage = error("corrupt_journal", position=position, detail=f"entry {pos} stands in its place")
            return found
        if said is not None and said != chain:
            found.damage = error("corrupt_journal", position=position, detail="it follows other lines than these")
            return found
        chain = next_chain(chain, text)
        batch.append(text)
        offset, batch_end = end + 1, pos + more
        if more == 0:
            found.texts += batch
            batch, found.whole, found.chain = [], offset, chain
    return found


def _is_end_of_batch(block: bytes, batch_end: int) -> bool:
    """Whether nothing but lines of one batch follows: a power cut may keep its later pages and lose earlier ones."""
    lines = [line for text in block.split(b"\n")[:-1] if (line := _checked(text)) is not None]
    return all(pos + more == batch_end for pos, more, _, _ in lines)


class JournalMoved(Exception):
    """The lines that a reader would go on with were removed: it has to begin anew."""


class JournalReader:
    """Reads on from where it stopped; costs two looks at names when nothing is new.

    A fresh reader begins with the first line that is there, or with the snapshot before it. Over lines that are damaged it
    goes on with a snapshot that covers them; where there is none it raises corrupt_journal.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None  # the file that is being read; None: the next one is not there yet
        self._offset = 0
        self._waiting: list[bytes] = []  # entries that were read and not returned yet
        self._positions: list[int] = []  # of those that wait
        self._returned = 0
        self._last = 0
        self._begun = self._looked = False
        self.chain = NO_CHAIN
        self.damage: list[PenstockError] = []  # lines that could not be read, and that a snapshot covers

    def read(self, upto: int | None = None) -> list[Entry]:
        """Entries after the last one returned, up to and including position `upto`."""
        return list(self.entries(upto))

    def entries(self, upto: int | None = None) -> Entries:
        """The same, decoded one by one: for a caller that takes in many and keeps none."""
        self._fetch()
        count = len(self._positions) if upto is None else bisect_right(self._positions, upto)
        if upto is not None and count < len(self._positions) and self._returned < upto:
            reached = self._positions[count - 1] if count else self._returned
            if reached < upto:  # the next one is a snapshot beyond it
                detail = f"entries {reached + 1} to {self._positions[count] - 1} are no longer kept one by one"
                raise error("corrupt_journal", position=upto, detail=detail)
        found, self._waiting = Entries(self._waiting[:count]), self._waiting[count:]
        if count:
            self._returned = self._positions[count - 1]
            del self._positions[:count]
        return found

    def waiting(self) -> Entries:
        """Entries that were read and not returned yet."""
        return Entries(self._waiting)

    def head(self) -> int:
        self._fetch()
        return self._last

    def positions(self) -> list[int]:
        """The positions of the entries that wait: states can be had as of these."""
        self._fetch()
        return self._positions

    @property
    def rest(self) -> tuple[Path | None, int]:
        """The file that was read last, and where its last whole line ends."""
        return self._path, self._offset

    def _fetch(self) -> None:
        if not self._begun:
            self._begin()
        while self._read_file() or self._open_next():
            pass

    def _begin(self) -> None:
        files = journal_files(self._folder)
        if files and files[0][0] == 1:
            self._path, self._begun = files[0][1], True
        elif files or list_snapshots(self._folder):
            self._begun = True
            if not self._jump(0):
                first = files[0][0] if files else 1
                detail = f"the journal begins with entry {first}, and no snapshot says what was before"
                raise error("corrupt_journal", position=max(first - 1, 1), detail=detail)

    def _read_file(self) -> bool:
        """Take in what is new in the file; whether something was."""
        if self._path is None:
            return False
        try:
            size = os.stat(self._path).st_size
        except FileNotFoundError:
            if journal_file(self._folder, self._last + 1).exists():
                return False
            if self._last:
                raise JournalMoved from None
            return False
        if size == self._offset:
            return False
        if size < self._offset:
            raise error("corrupt_journal", position=self._last, detail="the file is shorter than it was")
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            block = stream.read()
        found = _scan(block, self._last, self.chain)
        self._offset += found.whole
        self._positions += range(self._last + 1, self._last + 1 + len(found.texts))
        self._last += len(found.texts)
        self._waiting = self._waiting + found.texts
        self.chain = found.chain
        if found.damage is not None:
            self.damage.append(found.damage)
            if not self._jump(self._last + 1):
                raise found.damage
            return True
        return bool(found.texts)

    def _open_next(self) -> bool:
        """Go on with the file that begins after the last line, or with a snapshot where that line is missing."""
        following = journal_file(self._folder, self._last + 1)
        if following != self._path and self._begun and following.exists():
            self._path, self._offset = following, 0
            return True
        if not self._begun or not self._is_behind():
            return False
        # The lines before a snapshot are there when it is: they may have come after the last look at the file.
        return self._read_file() or self._jump(self._last + 1)

    def _is_behind(self) -> bool:
        """Whether a snapshot is of a later entry than the last line: then lines at the end of a file are lost.

        Looked at once, and while a line at the end cannot be read: a line that is being written is there a moment later.
        """
        torn = self._path is not None and self._path.exists() and self._path.stat().st_size > self._offset
        if self._looked and not torn:
            return False
        self._looked = True
        return any(position > self._last for position in list_snapshots(self._folder))

    def _jump(self, least: int) -> bool:
        """Go on after a whole snapshot of at least this position; whether there is one."""
        for position in list_snapshots(self._folder):
            if position < least:
                continue
            path = snapshot_path(self._folder, position)
            try:
                data = read_snapshot(path)
            except PenstockError as problem:
                self.damage.append(problem)
                continue
            body = {"pos": position, "kind": SNAPSHOT, "heads": data["heads"]["last"], "at": data["at_us"]}
            self._waiting = [*self._waiting, orjson.dumps({**body, "body": {"path": str(path)}})]
            self._positions.append(position)
            self._last, self.chain, self._offset = position, data["chain"], 0
            following = journal_file(self._folder, position + 1)
            self._path = following if following.exists() else None
            return True
        return False


class JournalWriter:
    """The one writer. Opening checks every line; it cuts a torn tail off and keeps its bytes in `corrupt/`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "journal").mkdir(parents=True, exist_ok=True)
        reader = JournalReader(folder)
        self.position = reader.head()
        self.chain = reader.chain
        report = damage_of(folder)
        for problem in reader.damage:
            report.note(_named(problem), "journal", f"{problem.message}; a snapshot covers it", healed=True)
        path, self._size = reader.rest
        covered = self.position in list_snapshots(folder)
        if path is None or covered:
            # Lines before a snapshot are left as they are, damaged or not: new ones go to a file of their own.
            path, self._size = journal_file(folder, self.position + 1), 0
        self._file = path
        block = path.read_bytes() if path.exists() else b""
        self._sum = zlib.crc32(block[: self._size])
        self._keep_tail(block[self._size :])
        self._descriptor = self._open()
        sync_folder(self._file.parent)
        sync_folder(folder)
        self._unclean = self._upgraded = False

    def _keep_tail(self, tail: bytes) -> None:
        if not tail:
            return
        report = damage_of(self._folder)
        kept = report.keep_bytes(f"journal/after-{self.position:012d}", tail)
        detail = f"entry {self.position + 1} was written in part, and no client was told that it was stored"
        report.note(f"journal entry {self.position + 1}", "journal_tail", f"{detail}; kept in {kept.name}", healed=True)

    def rotate(self) -> None:
        """Go on in a new file: a snapshot of this position is written. Where it cannot be made, the old one stays in use."""
        before = self._file, self._size, self._sum
        self._file, self._size, self._sum = journal_file(self._folder, self.position + 1), 0, 0
        try:
            descriptor = self._open()
            try:
                sync_folder(self._file.parent)
            except BaseException:
                os.close(descriptor)
                raise
        except BaseException:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
            if self._file.exists():
                self.close()  # readers look for the next line in it: the next append tries to open it again
            else:
                self._file, self._size, self._sum = before
            raise
        self.close()
        self._descriptor = descriptor

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

    def append(self, entries: Iterable[tuple[str, dict[str, Any]]], heads: dict[int, int], at_us: int) -> Entries:
        """Entries with one sync: all of them or, after a failed write or a crash, none.

        What comes back was read from the bytes written: it holds what any other process will see.
        """
        given = list(entries)
        texts: list[bytes] = []
        chain = self.chain
        for number, (kind, body) in enumerate(given):
            entry = Entry(self.position + 1 + number, kind, heads, at_us, body)
            texts.append(_encode(entry, len(given) - 1 - number, chain))
            chain = next_chain(chain, texts[-1])
        block = b"".join(map(_line, texts))
        self._store(block)
        self._size += len(block)
        self.position += len(texts)
        self.chain = chain
        return Entries(texts)

    def _store(self, block: bytes) -> None:
        try:
            if not self._upgraded:
                upgrade_format(self._folder)
                self._upgraded = True
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
            # What was not acknowledged stays at the end for now; the next append tries again before it writes.
            _log.warning("the journal could not be cut back after a failed write")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _storage_error(failure: OSError) -> PenstockError:
    if failure.errno in _NO_ROOM:
        return error("disk_full", hint="free space and try again; what was defined before is safe")
    return error("internal_error", detail=f"the journal could not be written: {failure.strerror}")


def _named(problem: PenstockError) -> str:
    """What is damaged, as the report names it."""
    match = re.search(r"entry \d+|journal/[\w.-]+", problem.message)
    found = match[0] if match is not None else "journal"
    return f"journal {found}" if found.startswith("entry") else found


def bad_line(path: Path) -> str | None:
    """What is wrong with a file's lines, each by itself; None where nothing is. The last one may be torn."""
    lines = path.read_bytes().split(b"\n")
    bad = [number for number, line in enumerate(lines[:-1], start=1) if _checked(line) is None]
    return f"line {bad[0]} has a wrong checksum" if bad else None


def remove_covered(folder: Path, needed: int) -> int:
    """Remove lines and snapshots that no state from position `needed` on depends on; how many files.

    Two snapshots up to `needed` stay, the older one in case the newer one is damaged, and all lines after the older one.
    """
    usable = [position for position in list_snapshots(folder) if position <= needed]
    if len(usable) < 2:
        return 0
    floor, removed = usable[-2], 0
    files = journal_files(folder)
    for (_, path), (following, _) in pairwise(files):
        if following - 1 <= floor:
            path.unlink(missing_ok=True)
            removed += 1
    for position in usable[:-2]:
        snapshot_path(folder, position).unlink(missing_ok=True)
        removed += 1
    if removed:
        sync_folder(folder / "journal")
    return removed
