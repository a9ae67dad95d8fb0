"""Packed bit vectors (row i is bit i % 64 of word i // 64) and their conversion to Roaring bitmaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core.cgutils import false_bit
from numba.extending import intrinsic
from pyroaring import BitMap

from penstock.expr.kernel import kernel

Words = npt.NDArray[np.uint64]

# A Roaring container covers this many rows: as a list of 16-bit numbers up to ARRAY_MAX rows, else as 8 KB of bits.
CONTAINER_ROWS = 65_536
ARRAY_MAX = 4096
CONTAINER_BYTES = 8192


def words_for(rows: int) -> int:
    return (rows + 63) // 64


def pack(mask: npt.NDArray[np.bool_]) -> Words:
    """The packed vector of a boolean one; bits past the end are 0."""
    words = np.zeros(words_for(len(mask)), np.uint64)
    packed = np.packbits(mask, bitorder="little")
    words.view(np.uint8)[: len(packed)] = packed
    return words


def full(rows: int) -> Words:
    """All rows set."""
    words = np.full(words_for(rows), ~np.uint64(0), np.uint64)
    if rows % 64:
        words[-1] = np.uint64((1 << (rows % 64)) - 1)
    return words


def _word_instruction(emit: Callable[[Any, Any], Any]) -> Any:
    """A processor instruction on one word that Numba has no name for."""

    def declare(_context: Any, _word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return emit(builder, arguments[0])

        return types.uint64(types.uint64), generate

    return intrinsic(declare)


_popcount = _word_instruction(lambda builder, word: builder.ctpop(word))
_lowest_bit = _word_instruction(lambda builder, word: builder.cttz(word, false_bit))


@kernel
def popcount(word: np.uint64) -> int:
    return int(_popcount(word))


@kernel
def lowest_bit(word: np.uint64) -> int:
    """The number of the lowest set bit."""
    return int(_lowest_bit(word))


@kernel
def write_container(words: Words, out: npt.NDArray[np.uint8]) -> tuple[int, int]:
    """Write one container's worth of bits as Roaring stores them; gives (rows set, bytes written)."""
    count = 0
    for i in range(len(words)):
        count += popcount(words[i])
    if count > ARRAY_MAX:
        bits = out[:CONTAINER_BYTES].view(np.uint64)
        for i in range(len(words)):
            bits[i] = words[i]
        for i in range(len(words), CONTAINER_BYTES // 8):
            bits[i] = 0
        return count, CONTAINER_BYTES
    if count == 0:
        return 0, 0
    numbers = out[: 2 * count].view(np.uint16)
    at = 0
    for i in range(len(words)):
        word = words[i]
        while word != 0:
            numbers[at] = np.uint16(i * 64 + lowest_bit(word))
            at += 1
            word &= word - np.uint64(1)
    return count, 2 * count


@kernel
def _write_containers(
    words: Words, chosen: npt.NDArray[np.int64], out: npt.NDArray[np.uint8], counts: npt.NDArray[np.int64]
) -> None:
    wide = CONTAINER_ROWS // 64
    for i in range(len(chosen)):
        row = words[chosen[i]]
        for number in range(out.shape[1]):
            counts[i, number] = write_container(row[number * wide : (number + 1) * wide], out[i, number])[0]


def bitmap_of(containers: list[tuple[int, int, bytes]]) -> BitMap:
    """The bitmap of (container number, rows set, content) in ascending order, without going row by row.

    Writes Roaring's portable format: cookie, count, (key, cardinality - 1) each, offset each, contents.
    """
    count = len(containers)
    if count == 0:
        return BitMap()
    keys = np.empty(2 * count, np.uint16)
    keys[0::2] = [c[0] for c in containers]
    keys[1::2] = [c[1] - 1 for c in containers]
    sizes = np.array([0, *(len(c[2]) for c in containers[:-1])], np.uint32)
    offsets = np.cumsum(sizes, dtype=np.uint32) + np.uint32(8 + 8 * count)
    head = np.array([12346, count], np.uint32).tobytes()
    return BitMap.deserialize(head + keys.tobytes() + offsets.tobytes() + b"".join(c[2] for c in containers))


def bitmap_of_words(words: Words) -> BitMap:
    """The bitmap of a packed vector."""
    containers = []
    out = np.empty(CONTAINER_BYTES, np.uint8)
    for number, start in enumerate(range(0, len(words), CONTAINER_ROWS // 64)):
        count, size = write_container(words[start : start + CONTAINER_ROWS // 64], out)
        if count:
            containers.append((number, count, out[:size].tobytes()))
    return bitmap_of(containers)


def bitmaps_of_rows(words: Words, counts: npt.NDArray[np.int64]) -> Iterator[tuple[int, BitMap]]:
    """The rows of a matrix of bits that have any set (`counts` says how many), as bitmaps."""
    some = np.flatnonzero(counts)
    per_row = max(1, -(-words.shape[1] * 64 // CONTAINER_ROWS))
    step = max(1, 256 // per_row)
    out = np.empty((min(step, len(some)), per_row, CONTAINER_BYTES), np.uint8)
    found = np.empty((len(out), per_row), np.int64)
    for first in range(0, len(some), step):
        chosen = some[first : first + step]
        _write_containers(words, chosen, out, found)
        for i, row in enumerate(chosen.tolist()):
            parts = [(n, c, out[i, n, : _content_bytes(c)].tobytes()) for n, c in enumerate(found[i].tolist()) if c]
            yield row, bitmap_of(parts)


def _content_bytes(count: int) -> int:
    return 2 * count if count <= ARRAY_MAX else CONTAINER_BYTES


Lists = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]
NO_LISTS: Lists = (np.zeros(1, np.int64), np.empty(0, np.uint32))


def list_rows(
    words: Words, lists: Lists, chosen: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """The numbers of the set bits of some rows of a matrix, one row after the other; `counts` of these rows.

    Rows after the last one of `words` are lists already: starts and numbers.
    """
    out = np.empty(int(counts.sum()), np.uint32)
    _list_rows(words, lists, chosen, out)
    return out


def set_bits(words: Words) -> npt.NDArray[np.int64]:
    """The numbers of the set bits of one packed vector, ascending."""
    # As booleans: NumPy looks for those three times as fast as for numbers that are not zero.
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_))


@kernel
def _list_rows(words: Words, lists: Lists, chosen: npt.NDArray[np.int64], out: npt.NDArray[np.uint32]) -> None:
    starts, numbers = lists
    at = 0
    for row in chosen:
        if row >= len(words):
            place = row - len(words)
            for i in range(starts[place], starts[place + 1]):
                out[at] = numbers[i]
                at += 1
            continue
        for i in range(words.shape[1]):
            word = words[row, i]
            while word != 0:
                out[at] = np.uint32(i * 64 + lowest_bit(word))
                at += 1
                word &= word - np.uint64(1)
