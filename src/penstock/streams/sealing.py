"""Checksums of Arrow files: written with the batches, compared the first time a process reads the file.

Arrow files have none of their own (Parquet pages do, and compaction asks for them). Without one a flipped bit on
disk would be a wrong reading instead of an error.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

SEAL = b"penstock.crc32"
# So many files at most: every process has its own, new ones come by the dozen a second, and to check one again costs little.
_REMEMBERED = 2_048
_MAGIC_BYTES = 8

_seen: dict[str, tuple[int, int]] = {}  # size and time of change of files that were whole, the newest last
_lock = threading.Lock()


def sealed(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Schema:
    """The schema to write these batches with."""
    sums = [_schema_sum(schema), *(_sum(pa.ipc.read_message(batch.serialize())) for batch in batches)]
    return schema.with_metadata({**(schema.metadata or {}), SEAL: json.dumps(sums).encode()})


def sealed_file(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Callable[[Path], None]:
    """What writes these batches to a file, for `storing.store`."""
    written_with = sealed(schema, batches)

    def write(path: Path) -> None:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, written_with) as writer:
            for batch in batches:
                writer.write_batch(batch)

    return write


def sealed_schema(schema: pa.Schema) -> pa.Schema:
    """The schema to write a Parquet file with, whose pages carry checksums but whose column names do not."""
    return sealed(schema, [])


def check_schema(schema: pa.Schema) -> None:
    """Raise ArrowInvalid where the columns of a Parquet file are not those that were written."""
    wanted = (schema.metadata or {}).get(SEAL)
    if wanted is not None and json.loads(wanted) != [_schema_sum(schema)]:
        raise _changed()


def check_seal(path: Path, source: pa.NativeFile, schema: pa.Schema) -> None:
    """Raise ArrowInvalid where the batches of an open file are not those that were written."""
    wanted = (schema.metadata or {}).get(SEAL)
    state, name = path.stat(), str(path)
    mark = (state.st_size, state.st_mtime_ns)
    if wanted is None or _seen.get(name) == mark:
        return
    if json.loads(wanted) != [_schema_sum(schema), *_sums(source)]:
        raise _changed()
    with _lock:
        _seen[name] = mark
        while len(_seen) > _REMEMBERED:
            del _seen[next(iter(_seen))]


def _changed() -> pa.ArrowInvalid:
    return pa.ArrowInvalid("its checksum is wrong: the file has changed since it was written")


def _schema_sum(schema: pa.Schema) -> int:
    return zlib.crc32("\n".join(f"{field.name} {field.type}" for field in schema).encode())


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
