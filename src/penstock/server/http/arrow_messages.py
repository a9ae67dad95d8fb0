"""What an Arrow stream unpacks to, read from the headers of its messages before anything is unpacked.

A compressed buffer begins with the length of what is in it. Arrow allocates that much, so the lengths of all buffers that
the headers list are added up first. Headers are flatbuffers, of which a few fields are read here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import error

# Each column of each batch takes some hundred bytes, however few rows it has.
PIECES_MAX = 100_000
SCHEMA_MAX_BYTES = 1 << 20
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3
_PAIR = struct.Struct("<qq")  # of a field's node (length, nulls), of a buffer (offset, length)
_NOT_COMPRESSED = -1
_VERSION_5 = 4  # of the format, since Arrow 1.0


@dataclass(slots=True)
class ArrowSize:
    """What the messages announce: rows, and bytes that unpacking allocates."""

    rows: int = 0
    size: int = 0
    pieces: int = 0


def measure_arrow(body: Any) -> ArrowSize:
    """The announced size of a stream; invalid_body where its messages contradict themselves."""
    found = ArrowSize()
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
            _add(found, memoryview(message.metadata), memoryview(message.body) if message.body else memoryview(b""))
    except (struct.error, IndexError, pa.ArrowException, OSError) as problem:
        raise error("invalid_body", detail=f"not an Arrow stream: {problem}") from None
    return found


def _add(found: ArrowSize, metadata: memoryview, body: memoryview) -> None:
    message = _Table.root(metadata)
    kind = message.number(1, "B")
    header = message.table(2)
    if kind == _SCHEMA and len(metadata) > SCHEMA_MAX_BYTES:
        raise error("invalid_body", detail=f"the schema has more than {SCHEMA_MAX_BYTES} bytes")
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or header is None:
        return
    if message.number(0, "h") < _VERSION_5 and message.vector(4)[1]:
        # Arrow 0.17 said in here that buffers are compressed, and the reader still unpacks them.
        raise error("invalid_body", detail="a batch of an Arrow version before 1.0 has metadata of its own")
    batch = header.table(1) if kind == _DICTIONARY_BATCH else header
    if batch is None:
        raise error("invalid_body", detail="not an Arrow stream: a dictionary has no values")
    rows = batch.number(0, "q")
    if rows < 0:
        raise error("invalid_body", detail="not an Arrow stream: a batch has fewer than 0 rows")
    if kind == _RECORD_BATCH:
        found.rows += rows
    found.pieces += batch.vector(1)[1] + 1
    if found.pieces > PIECES_MAX:
        hint = "send fewer batches of more rows"
        raise error("invalid_body", detail=f"batches and columns are more than {PIECES_MAX} pieces", hint=hint)
    if batch.table(3) is not None:
        found.size += _unpacked(batch, body)


def _unpacked(batch: _Table, body: memoryview) -> int:
    """Bytes of all compressed buffers of a batch. Two that share their bytes count twice, as they are unpacked twice."""
    begin, count = batch.vector(2)
    size = 0
    for offset, length in _PAIR.iter_unpack(batch.data[begin : begin + count * _PAIR.size]):
        if length == 0:
            continue
        if offset < 0 or length < 8 or offset + length > len(body):
            raise error("invalid_body", detail="not an Arrow stream: a buffer lies outside of its message")
        (announced,) = struct.unpack_from("<q", body, offset)
        if announced < _NOT_COMPRESSED:
            raise error("invalid_body", detail="not an Arrow stream: a buffer has fewer than 0 bytes")
        size += max(announced, 0)
    return size


class _Table:
    """A table of a flatbuffer. Positions that lie outside of it are errors of `struct`."""

    __slots__ = ("_at", "_fields", "_fields_size", "data")

    def __init__(self, data: memoryview, at: int) -> None:
        self.data = data
        self._at = at
        self._fields = at - _read(data, at, "i")
        self._fields_size = _read(data, self._fields, "H")

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        return cls(data, _read(data, 0, "I"))

    def number(self, field: int, form: str) -> int:
        """A field's number; 0 where it is left out."""
        at = self._place(field)
        return _read(self.data, at, form) if at else 0

    def table(self, field: int) -> _Table | None:
        at = self._place(field)
        return _Table(self.data, at + _read(self.data, at, "I")) if at else None

    def vector(self, field: int) -> tuple[int, int]:
        """Where a field's elements begin, and how many there are."""
        at = self._place(field)
        if not at:
            return 0, 0
        begin = at + _read(self.data, at, "I")
        count = _read(self.data, begin, "I")
        if begin + 4 + count * _PAIR.size > len(self.data):
            raise struct.error("a list lies outside of its message")
        return begin + 4, count

    def _place(self, field: int) -> int:
        slot = 4 + 2 * field
        offset = _read(self.data, self._fields + slot, "H") if slot + 2 <= self._fields_size else 0
        return self._at + offset if offset else 0


def _read(data: memoryview, at: int, form: str) -> int:
    if at < 0:
        raise struct.error("a position lies outside of its message")
    found: int = struct.unpack_from(f"<{form}", data, at)[0]
    return found
