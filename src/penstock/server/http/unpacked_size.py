"""What an Arrow stream or a Parquet file unpacks to, read from its headers before anything is unpacked.

A compressed buffer of an Arrow message begins with the length of what is in it. Arrow allocates that much, so the lengths of all
buffers that the headers list are added up first. Headers are flatbuffers, of which a few fields are read here.

The footer of a Parquet file may say anything about sizes, so only the headers of pages count that the reader itself obeys. A
dictionary page may stand for any number of long values, and so may a page of deltas: where that could be too much, the values are
measured batch by batch. Footer and headers are read here and not through pyarrow's metadata: of a damaged file that ends the
process (`ColumnChunkMetaData` throws through code that does not catch).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import PenstockError, error

# Each column of each batch takes some hundred bytes, however few rows it has.
PIECES_MAX = 100_000
SCHEMA_MAX_BYTES = 1 << 20
_SCHEMA_MESSAGE, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3
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
    if kind == _SCHEMA_MESSAGE and len(metadata) > SCHEMA_MAX_BYTES:
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


FOOTER_MAX_BYTES = 4 << 20
PAGES_MAX = 200_000
# Fields and elements of the footer, and of all headers of pages together: each takes a moment to read.
PARTS_MAX = 8_000_000
# What a batch may take while values are measured.
_MEASURED_BYTES = 32 << 20
_BATCH_ROWS = 8_192

# Thrift's compact types.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEPTH_MAX = 16
_BITS = {_I16: 16, _I32: 32, _I64: 64}
_FIXED_BYTES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
# Fields of the footer, of a column in it and of a page's header, as parquet.thrift numbers them.
_SCHEMA, _ROW_GROUPS, _COLUMNS = (2,), (4,), (4, 1)
_LISTS_OF_STRUCTS = frozenset({_SCHEMA, _ROW_GROUPS, _COLUMNS})
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
# By the kind of a page: the field of its header that the reader obeys. Pages of other kinds it skips.
_HEADERS = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
_DICTIONARY_ENCODINGS = frozenset({2, 8})  # PLAIN_DICTIONARY, RLE_DICTIONARY
_DELTA_BYTE_ARRAY = 7
_FIXED_LEN_BYTE_ARRAY = 7
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
# Levels of nesting, offset and validity of one value.
_AROUND_VALUE_BYTES = 12

# The fields of a struct: by number, the type and the value.
_Fields = dict[int, tuple[int, Any]]
_Visit = Callable[[tuple[int, ...], _Fields], None]


def check_footer(body: bytes | bytearray) -> None:
    """A footer becomes objects, each far larger than its bytes; one that is too long is not read at all."""
    if len(body) < 12 or body[-4:] != b"PAR1":
        raise _bad("it does not end as one")
    size = int.from_bytes(body[-8:-4], "little")
    if size > min(FOOTER_MAX_BYTES, len(body) - 12):
        raise _bad(f"its footer has more than {FOOTER_MAX_BYTES} bytes or lies outside of it")


def measure_parquet(body: bytes | bytearray, file: pq.ParquetFile, limit: int) -> int:
    """Bytes that the rows take in memory, or more than `limit`; invalid_body where the pages contradict themselves."""
    bound = _Bound(memoryview(body))
    footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    _Thrift(bound.body, bound.visit).struct(footer)
    if bound.size <= limit or not bound.longest:
        return bound.size
    return _measure_values(file, bound, limit)


def _measure_values(file: pq.ParquetFile, bound: _Bound, limit: int) -> int:
    """Read the file a few rows at a time, and add up what they take."""
    rows = max(1, min(_BATCH_ROWS, _MEASURED_BYTES // max(sum(bound.longest.values()), 1)))
    size = 0
    for batch in file.iter_batches(rows, use_threads=False):
        size += batch.nbytes
        if size > limit:
            break
    return size


class _Bound:
    """What a file takes at most, added up while its footer is read."""

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.size = 0
        # Of columns with values that may be longer than their share of a page: what one value may take.
        self.longest: dict[int, int] = {}
        self._widths: list[int] = []
        self._column = 0
        self._pages = 0
        self._headers = _Thrift(body)

    def visit(self, path: tuple[int, ...], fields: _Fields) -> None:
        if path == _SCHEMA:
            kind = _number(fields, 1, _I32, -1)
            if _number(fields, 5, _I32, 0) == 0 and kind >= 0:  # a group has a number of children or no type
                width = _number(fields, 2, _I32, 0) if kind == _FIXED_LEN_BYTE_ARRAY else _WIDTHS.get(kind, 0)
                self._widths.append(max(width, 0))
        elif path == _COLUMNS:
            if self._column >= len(self._widths):
                raise _bad("a column is not described")
            self._add_column(self._column, _struct(fields, 3))
            self._column += 1
        elif path == _ROW_GROUPS:
            self._column = 0

    def _add_column(self, index: int, details: _Fields) -> None:
        width = self._widths[index]
        values = expanding = dictionary = 0
        for kind, size, count, encoding in self._pages_of(details):
            self.size += size
            if kind == _DICTIONARY_PAGE:
                dictionary = max(dictionary, size)
                continue
            values += count
            if encoding in _DICTIONARY_ENCODINGS:
                expanding = max(expanding, dictionary)
            elif encoding == _DELTA_BYTE_ARRAY:
                expanding = max(expanding, size)
        self.size += values * (width + _AROUND_VALUE_BYTES)
        if not width and expanding:
            self.size += values * expanding
            self.longest[index] = max(self.longest.get(index, 0), expanding)

    def _pages_of(self, details: _Fields) -> Iterator[tuple[int, int, int, int]]:
        """A column's pages, one after another as the reader takes them: kind, unpacked size, values and their encoding."""
        at, count, packed = (_number(details, field, _I64) for field in (9, 5, 7))
        first = _number(details, 11, _I64, 0)
        if 0 < first < at:
            at = first
        end = at + packed
        if at < 0 or packed < 0 or end > len(self.body):
            raise _bad("a column lies outside of it")
        while at < end and count > 0:
            self._pages += 1
            if self._pages > PAGES_MAX:
                raise _bad(f"it has more than {PAGES_MAX} pages")
            header, at = self._headers.struct(at)
            kind, size, packed = (_number(header, field, _I32) for field in (1, 2, 3))
            if size < 0 or packed < 0:
                raise _bad("a page has fewer than 0 bytes")
            at += packed
            values = encoding = 0
            if kind in _HEADERS:
                inside = _struct(header, _HEADERS[kind])
                values = _number(inside, 1, _I32)
                encoding = _number(inside, 4 if kind == _DATA_PAGE_V2 else 2, _I32)
            if values < 0:
                raise _bad("a page has fewer than 0 values")
            if kind != _DICTIONARY_PAGE:
                count -= values
            yield kind, size, values, encoding
        if count > 0:
            raise _bad("a column has fewer values than it says")


def _number(fields: _Fields, field: int, kind: int, default: int | None = None) -> int:
    found_kind, found = fields.get(field, (kind, default))
    if found_kind != kind or found is None:
        raise _bad("a number is missing")
    return int(found)


def _struct(fields: _Fields, field: int) -> _Fields:
    kind, found = fields.get(field, (_STRUCT, None))
    if kind != _STRUCT or found is None:
        raise _bad("a part is missing")
    return dict(found)


def _bad(detail: str) -> PenstockError:
    return error("invalid_body", detail=f"not a Parquet file: {detail}")


class _Thrift:
    """Thrift's compact protocol: numbers and structs are kept, texts are skipped, structs in lists go to `visit`.

    Stricter than the reader, which cuts numbers to their type and lets a field come twice: both could hide a size from us.
    """

    def __init__(self, data: memoryview, visit: _Visit = lambda _, __: None) -> None:
        self._data = data
        self._visit = visit
        self._parts = 0

    def struct(self, at: int, path: tuple[int, ...] = ()) -> tuple[_Fields, int]:
        """The fields of a struct by their numbers, and where it ends."""
        if len(path) > _DEPTH_MAX:
            raise _bad("its structs are nested too deep")
        found: _Fields = {}
        last = 0
        while (head := self._byte(at)) != 0:
            at += 1
            step, kind = head >> 4, head & 15
            if step:
                last += step
            else:
                last, at = self._number(_I16, at)
            if last in found or last >= 1 << 15:
                raise _bad("a field comes twice or has no number")
            value, at = self._value(kind, at, (*path, last))
            found[last] = kind, value
        return found, at + 1

    def _value(self, kind: int, at: int, path: tuple[int, ...]) -> tuple[Any, int]:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise _bad(f"it has more than {PARTS_MAX} parts")
        if kind in _FIXED_BYTES:
            return None, at + _FIXED_BYTES[kind]
        if kind in _BITS:
            return self._number(kind, at)
        if kind == _BINARY:
            size, at = self._varint(at)
            return None, at + size
        if kind in (_LIST, _SET):
            return None, self._list(at, path)
        if kind == _STRUCT:
            return self.struct(at, path)
        raise _bad("a field has no known type")

    def _list(self, at: int, path: tuple[int, ...]) -> int:
        head = self._byte(at)
        at += 1
        count, kind = head >> 4, head & 15
        if count == 15:
            count, at = self._varint(at)
        if kind in (_LIST, _SET) or count > len(self._data) - at:
            raise _bad("a list has lists in it, or more elements than bytes")
        if path in _LISTS_OF_STRUCTS and kind != _STRUCT:
            raise _bad("a list has other elements than structs")
        for _ in range(count):
            if kind == _STRUCT and path == _ROW_GROUPS:
                self._visit(path, {})
            found, at = self._value(kind, at, path)
            if kind in (_TRUE, _FALSE):
                at += 1
            if kind == _STRUCT and path != _ROW_GROUPS:
                self._visit(path, found)
        return at

    def _number(self, kind: int, at: int) -> tuple[int, int]:
        number, at = self._varint(at)
        number = (number >> 1) ^ -(number & 1)  # zigzag
        if number.bit_length() >= _BITS[kind]:
            raise _bad("a number is too large for its type")
        return number, at

    def _varint(self, at: int) -> tuple[int, int]:
        number = shift = 0
        while True:
            byte = self._byte(at)
            at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number, at
            shift += 7
            if shift > 63:
                raise _bad("a number has no end")

    def _byte(self, at: int) -> int:
        if not 0 <= at < len(self._data):
            raise _bad("a part lies outside of it")
        return self._data[at]
