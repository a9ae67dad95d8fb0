"""files: rolling Parquet files in a folder.

Rows are first appended to one open file beside them and synced; at a size or an age it becomes a Parquet file, written
aside and renamed. The open file also says how far the sink has come, so each row is in exactly one Parquet file.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.damage import free_name
from penstock.disk_sync import sync_folder
from penstock.sensors.options import duration, one_of
from penstock.sinks.base import Kind, Option, Outlet, Place, SinkBatch
from penstock.sinks.options import CHANGES, ROWS, size
from penstock.streams.log.atomic_file import make_folder, store, sweep

_log = logging.getLogger("penstock.sinks")
_KEY = b"penstock"


@dataclass(frozen=True, slots=True)
class _Frame:
    """A batch in the open file: a whole Arrow stream. One without rows only says how far the sink has come."""

    cycle: int
    at_us: int
    table: pa.Table


class Files(Outlet):
    """One folder's files. What a killed server left half-appended is cut off when it is opened.

    Each frame of the open file has its length and a checksum. A damaged one, and what follows it, is kept beside the open file and
    cut off: the sink goes back to the frame before it (`is_damaged`) and delivers the cycles after that again.
    """

    def __init__(self, place: Place, options: Mapping[str, Any]) -> None:
        self._options = options
        self._clock = place.clock
        self._folder = place.files / options["folder"]
        self._name = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', place.sink.name)}-{place.sink.id}"
        # Hidden, so that a program that reads the folder as a table does not read what is not finished.
        self._aside = self._folder / f".penstock-{place.sink.id}"
        self._open_file = self._aside / "open.arrows"
        _make_like_parents(self._folder)
        make_folder(self._aside)
        sweep(self._aside)
        self._first: int | None = None  # cycle of the oldest row in the open file
        self._since_us = 0
        self._schema: pa.Schema | None = None
        self._last: int | None = None
        self.is_damaged = False
        self._size = self._recover()
        self._descriptor = os.open(self._open_file, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._descriptor, self._size)
        if self._is_finished():
            self._begin_anew()  # killed after the Parquet file was there, before this one was emptied

    def _recover(self) -> int:
        """Take in what the open file holds; where the last whole frame of it ends."""
        whole = 0
        try:
            for frame, end in _frames(self._open_file):
                self._note(frame)
                whole = end
        except _Damaged as problem:
            self.is_damaged = True
            kept = free_name(self._aside, "damaged.arrows")
            kept.write_bytes(self._open_file.read_bytes()[whole:])
            _log.error("%s is damaged: %s; its end is kept in %s", self._open_file, problem, kept)
        return whole

    def _is_finished(self) -> bool:
        return self._first is not None and self._target().exists()

    def _note(self, frame: _Frame) -> None:
        if frame.table.num_rows and self._first is None:
            self._first, self._since_us, self._schema = frame.cycle, frame.at_us, frame.table.schema
        self._last = frame.cycle

    def position(self) -> int | None:
        return self._last

    def deliver(self, batch: SinkBatch) -> None:
        if self._last is not None and (batch.cycle == self._last or (batch.cycle < self._last and not batch.whole)):
            return  # it was appended just before the server was killed
        if self._schema is not None and batch.table.num_rows and self._schema != batch.table.schema:
            self._roll()
        if batch.whole and self._last is not None and batch.cycle < self._last:
            self._roll()  # the data folder fell back; names of files say which cycles they hold
        frame = _Frame(batch.cycle, self._clock.now_us(), batch.table.replace_schema_metadata(None))
        data = _encoded(frame)
        os.lseek(self._descriptor, self._size, os.SEEK_SET)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
            os.fsync(self._descriptor)
        except OSError:
            # What could not be synced must not be found, and taken for delivered, when the file is opened again.
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)
        self._note(frame)
        self.tick()

    def tick(self) -> None:
        if self._first is None:
            return
        age_us = self._clock.now_us() - self._since_us
        if self._size >= self._options["max_size"] or age_us >= self._options["max_age"]:
            self._roll()

    def _target(self) -> Path:
        folder: Path = self._folder
        return folder / f"{self._name}-{self._first or 0:012d}-{self._last or 0:012d}.parquet"

    def _roll(self) -> None:
        """The rows of the open file become a Parquet file; then it is emptied."""
        if self._first is None:
            return

        def write(path: Path) -> None:
            compression = self._options["compression"]
            with pq.ParquetWriter(path, self._schema, compression=compression) as writer:
                for frame, _ in _frames(self._open_file):
                    if frame.table.num_rows:
                        writer.write_table(frame.table)
            os.chmod(path, self._folder.stat().st_mode & 0o666 | 0o600)

        store(self._aside, self._target(), write)
        self._begin_anew()

    def _begin_anew(self) -> None:
        """An open file that only knows how far the sink has come, in the place of the one that is done."""
        assert self._last is not None
        data = _encoded(_Frame(self._last, self._clock.now_us(), pa.table({})))
        store(self._aside, self._open_file, lambda path: path.write_bytes(data))
        os.close(self._descriptor)
        self._descriptor = os.open(self._open_file, os.O_RDWR)
        self._size = len(data)
        self._first = self._schema = None

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            sync_folder(self._aside)


def _make_like_parents(folder: Path) -> None:
    """Create a folder, and those above it, with the permissions of the one that was there: its owner decides which accounts read."""
    missing = [folder, *folder.parents][: next(n for n, p in enumerate((folder, *folder.parents)) if p.is_dir())]
    for each in reversed(missing):
        make_folder(each)
        each.chmod(each.parent.stat().st_mode & 0o777 | 0o700)


_MAGIC = b"PSF2"
_BARE_STREAM = b"\xff\xff\xff\xff"
_HEAD_BYTES = 20  # magic, length (8 bytes) and crc32 (4 bytes) of the frame's Arrow stream, crc32 of these (4 bytes)


class _Damaged(Exception):
    """A frame is not what was written."""


def _encoded(frame: _Frame) -> bytes:
    header = orjson.dumps({"cycle": frame.cycle, "at": frame.at_us})
    schema = frame.table.schema.with_metadata({_KEY: header})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(frame.table.replace_schema_metadata(schema.metadata))
    data = bytes(memoryview(sink.getvalue()))
    head = _MAGIC + len(data).to_bytes(8, "little") + zlib.crc32(data).to_bytes(4, "little")
    return head + zlib.crc32(head).to_bytes(4, "little") + data


def _frames(path: Path) -> Iterator[tuple[_Frame, int]]:
    """The frames of an open file and where each ends; nothing of one that is torn. Raises _Damaged for any other bad one."""
    if not path.exists():
        return
    with pa.OSFile(str(path), "rb") as source:
        end = source.size()
        while (begin := source.tell()) < end:
            head = source.read(_HEAD_BYTES)
            if head[:4] == _BARE_STREAM:
                source.seek(begin)
                frame = _read_stream(source)  # of format 1, without a head
                if frame is None:
                    return
                yield frame, source.tell()
                continue
            if len(head) < _HEAD_BYTES:
                return  # torn
            if head[:4] != _MAGIC or zlib.crc32(head[:-4]) != int.from_bytes(head[-4:], "little"):
                raise _Damaged(f"no frame begins at byte {begin}")
            length = int.from_bytes(head[4:12], "little")
            if begin + _HEAD_BYTES + length > end:
                return  # torn
            data = source.read(length)
            frame = None
            if zlib.crc32(data) == int.from_bytes(head[12:16], "little"):
                frame = _read_stream(pa.BufferReader(data))
            if frame is None:
                raise _Damaged(f"the frame at byte {begin} has a wrong checksum")
            yield frame, source.tell()


def _read_stream(source: pa.NativeFile) -> _Frame | None:
    try:
        with pa.ipc.open_stream(source) as reader:
            header = orjson.loads(reader.schema.metadata[_KEY])
            table = reader.read_all().replace_schema_metadata(None)
        return _Frame(header["cycle"], header["at"], table)
    except (OSError, pa.ArrowInvalid, TypeError, KeyError):
        return None


def _folder_name(text: str) -> str:
    """A folder below the one that the server's owner allows, never beside it."""
    parts = PurePosixPath(text.strip()).parts
    if not parts or text.strip().startswith("/") or ".." in parts or "\0" in text:
        raise ValueError("it names a folder below `sink_files`, without a leading / and without ..")
    return str(PurePosixPath(*parts))


def _age(text: str) -> int:
    value = duration(text)
    if value <= 0:
        raise ValueError("it must be more than nothing")
    return value


KIND = Kind(
    name="files",
    sentence="Writes rolling Parquet files.",
    promise="exactly once, each row in one finished file",
    options=(
        Option("folder", None, "Folder of the files, below the server's `sink_files`.", _folder_name),
        Option("max_size", "64 MB", "A file is finished when its rows take so much, before compression.", size),
        Option("max_age", "5 MINUTES", "A file is finished so long after its first row came.", _age),
        Option("compression", "zstd", "zstd, snappy or none.", one_of("zstd", "snappy", "none")),
        CHANGES,
        ROWS,
    ),
    open=Files,
    target=lambda options: str(options["folder"]),
)
