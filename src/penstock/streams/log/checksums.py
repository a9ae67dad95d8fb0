"""Checksums of Arrow files: written with the batches, compared the first time a process reads the file.

Arrow files have none of their own (Parquet pages do, and compaction asks for them). Without one a flipped bit on
disk would be a wrong reading instead of an error.

Pages of our Parquet files carry checksums, but the footer does not: it says how many rows there are, where columns lie and which times a
row group has. A writer leaves room for two sums in the footer's metadata, and `seal_footer` fills them in. The sum of the footer
is compared the first time a process opens the file, that of all bytes before it by the scrubber and `penstock check`.
"""

from __future__ import annotations

import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

SEAL = b"penstock.seal"  # covers names, types and metadata of the schema, and every batch
FIELDS_SEAL = b"penstock.crc32"  # of format 1, and of Parquet files: names and types, and every batch
# So many files at most: every process has its own, new ones come by the dozen a second, and to check one again costs little.
_REMEMBERED = 2_048
_MAGIC = b"ARROW1"
_MAGIC_BYTES = 8  # of the file's beginning, with padding
_PIECE_BYTES = 1 << 20

_seen: dict[str, tuple[int, int]] = {}  # size and time of change of files that were whole, the newest last
_lock = threading.Lock()


def sealed_file(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Callable[[Path], None]:
    """What writes these batches to a file, for `atomic_file.store`."""
    sums = [_head_sum(schema), *(_sum(pa.ipc.read_message(batch.serialize())) for batch in batches)]
    written_with = schema.with_metadata({**(schema.metadata or {}), SEAL: json.dumps(sums).encode()})

    def write(path: Path) -> None:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, written_with) as writer:
            for batch in batches:
                writer.write_batch(batch)

    return write


def sealed_schema(schema: pa.Schema) -> pa.Schema:
    """The schema to write a Parquet file with: its pages carry checksums, its column names do not."""
    return schema.with_metadata({**(schema.metadata or {}), FIELDS_SEAL: json.dumps([_fields_sum(schema)]).encode()})


def check_schema(schema: pa.Schema) -> None:
    """Raise ArrowInvalid where the columns of a Parquet file are not those that were written."""
    wanted = (schema.metadata or {}).get(FIELDS_SEAL)
    if wanted is not None and json.loads(wanted) != [_fields_sum(schema)]:
        raise _changed()


def check_seal(path: Path, source: pa.NativeFile, reader: pa.ipc.RecordBatchFileReader) -> None:
    """Raise ArrowInvalid where an open file's batches or metadata are not those that were written.

    `source` is mapped or in memory: it is read at two places in turn.
    """
    # Asked at both places: a file whose seal is damaged at one of them must not pass as one without.
    if _seal_of(open_sealed(path, source)) is not None or _seal_of(reader.schema) is not None:
        _check_footer(source, reader)


def _read_through(path: Path) -> None:
    """Read every byte once: a bad sector is an error here, while below a mapped file it would end the process."""
    piece = bytearray(min(_PIECE_BYTES, max(1, path.stat().st_size)))
    with path.open("rb", buffering=0) as file:
        while file.readinto(piece):
            pass


def open_sealed(path: Path, source: pa.NativeFile) -> pa.Schema:
    """The schema of an open file with batches as they were written. Raises ArrowInvalid where they are not.

    The footer is not looked at: read the batches with `open_stream`.
    """
    mark = mark_of(path)
    schema = open_stream(source).schema
    if not is_whole(path, mark):
        source.seek(source.size() - len(_MAGIC))
        if source.read(len(_MAGIC)) != _MAGIC:
            raise pa.ArrowInvalid("the file has been cut short")
        if _seal_of(schema) is not None:
            _read_through(path)
            _check_stream(source, schema)
            remember_whole(path, mark)
    return schema


def read_sealed(path: Path, source: pa.NativeFile) -> pa.Table:
    """All rows of an open file, as `open_sealed` checks it."""
    open_sealed(path, source)
    return open_stream(source).read_all()


def open_stream(source: pa.NativeFile, columns: list[int] | None = None) -> pa.ipc.RecordBatchStreamReader:
    """The batches of an Arrow file in the order in which they lie in it; some columns by their places, or all."""
    if source.size() < 2 * _MAGIC_BYTES:
        raise pa.ArrowInvalid("the file is too short")
    source.seek(_MAGIC_BYTES)
    # The order of bytes is that of this machine. What a file says of it is under no checksum, and would turn every number.
    options = pa.ipc.IpcReadOptions(ensure_native_endian=False, included_fields=columns)
    return pa.ipc.open_stream(source, options=options)


def _seal_of(schema: pa.Schema) -> bytes | None:
    metadata = schema.metadata or {}
    found: bytes | None = metadata.get(SEAL, metadata.get(FIELDS_SEAL))
    return found


def _check_stream(source: pa.NativeFile, schema: pa.Schema) -> None:
    head = _head_sum(schema) if SEAL in schema.metadata else _fields_sum(schema)
    try:
        whole = json.loads(_seal_of(schema) or b"[]") == [head, *_sums(source)]
    except ValueError:
        whole = False
    if not whole:
        raise _changed()


def _check_footer(source: pa.NativeFile, reader: pa.ipc.RecordBatchFileReader) -> None:
    """Raise where the footer leads to other batches than those that lie in the file, which are as they were written."""
    stream = open_stream(source)
    if not stream.schema.equals(reader.schema, check_metadata=True):
        raise _changed()
    for place in range(reader.num_record_batches):
        try:
            written = stream.read_next_batch()
        except StopIteration:
            raise _changed() from None
        found = reader.get_batch(place)
        if found.num_rows != written.num_rows or _buffers(found) != _buffers(written):
            raise _changed()
    if any(True for _ in stream):
        raise _changed()


def _buffers(batch: pa.RecordBatch) -> list[pa.Buffer | None]:
    return [buffer for column in batch.columns for buffer in column.buffers()]


Mark = tuple[int, int]


def mark_of(path: Path) -> Mark:
    """Size and time of change of a file: the same as long as it is not written to."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns


def is_whole(path: Path, mark: Mark) -> bool:
    """Whether this process has found the file whole, and it was not written to since."""
    return _seen.get(str(path)) == mark


def remember_whole(path: Path, mark: Mark) -> None:
    with _lock:
        _seen[str(path)] = mark
        while len(_seen) > _REMEMBERED:
            del _seen[next(iter(_seen))]


def forget_whole(path: Path) -> None:
    """The next reader compares its checksum again: a disk can lose what it held."""
    with _lock:
        _seen.pop(str(path), None)


def _changed() -> pa.ArrowInvalid:
    return pa.ArrowInvalid("its checksum is wrong: the file has changed since it was written")


def _fields_sum(schema: pa.Schema) -> int:
    # Parquet calls the values of a list "element", Arrow in memory "item": that is no change.
    spelled = (f"{field.name} {field.type}".replace("list<element: ", "list<item: ") for field in schema)
    return zlib.crc32("\n".join(spelled).encode())


def _head_sum(schema: pa.Schema) -> int:
    """Of everything that a schema says but the seal itself."""
    found = _fields_sum(schema)
    for holder in (schema, *schema):
        for key, value in sorted((holder.metadata or {}).items()):
            if key != SEAL:
                found = zlib.crc32(b"%d %s %d %s" % (len(key), key, len(value), value), found)
    return found


def _sum(message: pa.ipc.Message) -> int:
    return zlib.crc32(message.body, zlib.crc32(message.metadata))


def _sums(source: pa.NativeFile) -> list[int]:
    source.seek(_MAGIC_BYTES)
    messages = pa.ipc.MessageReader.open_stream(source)
    sums: list[int] = []
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return sums
        if message.type == "record batch":
            sums.append(_sum(message))


KEY = "penstock.footer"
ROOM = "00000000:00000000"  # the sum of the footer, and that of what is before it
_PLACE = re.compile(rb"penstock\.footer[\x00-\x7f]{1,4}?([0-9a-f]{8}):([0-9a-f]{8})")
_TAIL_BYTES = 8


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
