"""Idempotency keys: a push that is repeated with its key is not stored again; its first receipt is given again.

A key is durable with its rows: it stands in the schema of their hot segment. Before compaction removes that
segment it carries the key to a synced file beside the log. Keys belong to a table and are kept for
`idempotency_keep_hours`; the body of a repeat is not compared. A push of which nothing was stored is
remembered until the server stops: to judge it anew doubles nothing.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.damage import damage_of
from penstock.disk_sync import sync_folder
from penstock.streams.ingest.readings import IngestReceipt, ReadingRefusal
from penstock.streams.log.atomic_file import make_folder, store
from penstock.streams.log.segments import list_files
from penstock.streams.log.table_log import read_keys

HOUR_US = 3_600_000_000
KEYS_MAX = 1_000_000  # per table; beyond it the oldest are forgotten early
_REWRITE_BYTES = 4 << 20

Record = tuple[str, int, int, dict[str, Any]]  # key, arrival, position after, receipt


def pack_receipt(receipt: IngestReceipt) -> dict[str, Any]:
    """A receipt as JSON, without the position, which is known only when the rows are in place."""
    return {"accepted": receipt.accepted, "refused": [[r.index, r.condition, r.message] for r in receipt.refused]}


def unpack_receipt(body: dict[str, Any], position: int) -> IngestReceipt:
    refused = tuple(ReadingRefusal(index, condition, message) for index, condition, message in body.get("refused", ()))
    return IngestReceipt(int(body["accepted"]), refused, position)


class Keys:
    """The keys of one table, as a running server remembers them. Thread-safe."""

    def __init__(self, keep_us: int) -> None:
        self._keep_us = keep_us
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, IngestReceipt | Future[IngestReceipt]]] = {}  # in order of arrival

    def find(self, key: str, now_us: int) -> Future[IngestReceipt] | None:
        """The receipt of an earlier push with this key, or the promise of one under way."""
        with self._lock:
            at_us, receipt = self._known.get(key, (now_us, None))
            if receipt is None or isinstance(receipt, Future):
                return receipt
            if at_us < now_us - self._keep_us:
                del self._known[key]
                return None
        answer: Future[IngestReceipt] = Future()
        answer.set_result(receipt)
        return answer

    def begin(self, key: str, now_us: int, receipt: Future[IngestReceipt]) -> None:
        with self._lock:
            self._known[key] = (now_us, receipt)

    def finish(self, key: str, receipt: IngestReceipt | None) -> None:
        """The push is stored, or (None) has failed and may be tried again."""
        with self._lock:
            if receipt is None:
                del self._known[key]
                return
            at_us, _ = self._known[key]
            self._known[key] = (at_us, receipt)
            self._forget(at_us)

    def restore(self, records: Iterable[Record]) -> None:
        with self._lock:
            for key, at_us, position, body in sorted(records, key=lambda record: record[1]):
                self._known.pop(key, None)
                self._known[key] = (at_us, unpack_receipt(body, position))

    def _forget(self, now_us: int) -> None:
        while self._known:
            key = next(iter(self._known))
            at_us, receipt = self._known[key]
            if isinstance(receipt, Future) or (at_us >= now_us - self._keep_us and len(self._known) <= KEYS_MAX):
                return
            del self._known[key]


class KeyFile:
    """The keys of compacted segments: one JSON record a line, synced before the segments go.

    A torn last line is ignored: its segment is still there.
    """

    def __init__(self, folder: Path, temporary: Path, keep_us: int) -> None:
        self._path = folder / "keys.jsonl"
        self._temporary = temporary
        self._keep_us = keep_us
        self._size_kept = 0

    def read(self, now_us: int) -> list[Record]:
        """The records that are not past their time."""
        if not self._path.exists():
            return []
        lines = map(_checked, self._path.read_bytes().split(b"\n"))
        found = [record for record in lines if record is not None and record[1] >= now_us - self._keep_us]
        bad = bad_lines(self._path)
        if bad:
            detail = f"{bad} idempotency keys cannot be read: a push that repeats one of them is stored again"
            damage_of(self._path.parents[2]).note(self._path, "keys", detail)
        return found

    def carry(self, segments: Iterable[Path], now_us: int) -> None:
        """Take over the keys of hot segments that are about to be replaced."""
        records = [record for path in segments for record in read_keys(path) if record[1] >= now_us - self._keep_us]
        if not records:
            return
        is_new = not self._path.exists()
        make_folder(self._path.parent)
        if not is_new and self._path.stat().st_size > 2 * self._size_kept + _REWRITE_BYTES:
            body = _lines(self.read(now_us))
            store(self._temporary, self._path, lambda path: path.write_bytes(body), at="keys")
            self._size_kept = len(body)
        with self._path.open("ab") as file:
            # A line break first ends whatever a crash left torn.
            file.write(b"\n" + _lines(records))
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self._path.parent)


def stored_keys(folder: Path, file: KeyFile, now_us: int) -> list[Record]:
    """Everything on disk: the keys of hot segments and those carried away; a repeat is harmless."""
    records: list[Record] = []
    for segment in list_files(folder):
        if segment.format == "arrow":
            try:
                records.extend(read_keys(segment.path))
            except FileNotFoundError:
                continue  # compacted just now, its keys carried before
            except (pa.ArrowException, OSError) as problem:
                damage_of(folder.parents[1]).note(segment.path, "log", f"{problem}; its idempotency keys are lost")
    # Read last: what a merge takes away while we look is in here by then.
    return [*file.read(now_us), *records]


def _lines(records: Iterable[Record]) -> bytes:
    texts = (json.dumps(record, separators=(",", ":")).encode() for record in records)
    return b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts)


def bad_lines(path: Path) -> int:
    """How many lines of a file of keys cannot be read; the last one may be torn."""
    lines = path.read_bytes().split(b"\n")
    return sum(bool(line) and _checked(line) is None for line in lines[:-1])


def _checked(line: bytes) -> Record | None:
    """The record of a line; None where it cannot be read. Lines of format 1 have no checksum and begin with a bracket."""
    text = line
    if not line.startswith(b"["):
        text = line[9:]
        if line[:9] != b"%08x " % zlib.crc32(text):
            return None
    try:
        key, at_us, position, body = json.loads(text)
        unpack_receipt(body, position)
        return str(key), int(at_us), int(position), body
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
