"""Dictionaries that grow: the values of a column get numbers in the order in which they are first seen, by compiled hashing.

A dictionary is an array of its values, and a table of their numbers by hash with at least two places per value. Values are compared, so
different ones have different numbers whatever their hashes are. NULL is a value, NaNs are equal, and so are both zeros.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.kernel import kernel

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Places: TypeAlias = npt.NDArray[np.int32]
Hashes: TypeAlias = npt.NDArray[np.uint64]

_SEED = np.uint64(secrets.randbits(64))  # no client can choose values that all want the same place
_FIRST_SIZE = 16
_ALL_VALID = np.empty(0, np.bool_)
_TEXT_BYTES = 16
"""So many bytes are reserved for a text at first."""
_BITS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class WordDictionary:
    """Numbers of values of up to 64 bits. One thread adds values; others may read known ones meanwhile without a lock."""

    def __init__(self, type_: pa.DataType = pa.int64()) -> None:
        self._type = type_
        self._count = 0
        self._words = np.empty(_FIRST_SIZE, np.int64)
        self._places = _no_places(_FIRST_SIZE)
        self._null = np.full(1, -1)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._words.nbytes + self._places.nbytes

    def number(self, column: pa.Array) -> Ints:
        """The numbers of values, old and new."""
        return self.number_words(words_of(column), valid_of(column))

    def number_words(self, words: Ints, valid: Bools = _ALL_VALID) -> Ints:
        numbers, done = np.empty(len(words), np.int64), 0
        while True:
            known = self._words, self._places, self._null
            done, self._count = _number_words((words, valid, numbers), done, known, self._count, _SEED)
            if done == len(words):
                return numbers
            self._words = _longer(self._words)
            self._places = _no_places(len(self._words))
            _place_words(self._words, self._places, self._null, self._count, _SEED)

    def words(self, numbers: Ints) -> Ints:
        return self._words[numbers]

    def take(self, numbers: Ints) -> pa.Array:
        """The values of numbers."""
        words, nulls = self.words(numbers), _nulls(numbers, self._null)
        if pa.types.is_null(self._type):
            return pa.nulls(len(numbers))
        if pa.types.is_boolean(self._type):
            return pa.array(words != 0, mask=nulls)
        return pa.array(words, mask=nulls).cast(_BITS[self._type.bit_width]).view(self._type)


class TextDictionary:
    """Numbers of texts, bytes and decimals; otherwise as `WordDictionary`."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._count = 0
        self._bounds = np.zeros(_FIRST_SIZE + 1, np.int64)  # text n is between bounds n and n + 1
        self._bytes = np.empty(_FIRST_SIZE * _TEXT_BYTES, np.uint8)
        self._places = _no_places(_FIRST_SIZE)
        self._null = np.full(1, -1)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._bounds.nbytes + self._bytes.nbytes + self._places.nbytes

    def number(self, column: pa.Array) -> Ints:
        (bounds, data), valid = texts_of(column), valid_of(column)
        numbers, done = np.empty(len(column), np.int64), 0
        while True:
            known = self._bounds, self._bytes, self._places, self._null
            done, self._count = _number_texts(bounds, data, valid, numbers, done, *known, self._count, _SEED)
            if done == len(column):
                return numbers
            needed = int(self._bounds[self._count] + bounds[done + 1] - bounds[done])
            while len(self._bytes) < needed:
                self._bytes = _longer(self._bytes)
            if self._count + 1 == len(self._bounds):
                self._bounds = np.append(self._bounds, np.empty(self._count, np.int64))
                self._places = _no_places(2 * self._count)
                _place_texts(self._bounds, self._bytes, self._places, self._null, self._count, _SEED)

    def take(self, numbers: Ints) -> pa.Array:
        # In this order: meanwhile there may be bounds of more texts, and bytes of more than that, but never fewer.
        count, bounds, data = self._count, pa.py_buffer(self._bounds), pa.py_buffer(self._bytes)
        is_binary = pa.types.is_binary(self._type) or pa.types.is_large_binary(self._type)
        wide = pa.large_binary() if is_binary else pa.large_string()
        texts = pa.Array.from_buffers(wide, count, [None, bounds, data])
        return texts.take(pa.array(numbers, mask=_nulls(numbers, self._null))).cast(self._type)


Dictionary: TypeAlias = WordDictionary | TextDictionary


def dictionary_of(type_: pa.DataType) -> Dictionary:
    return TextDictionary(type_) if is_text(type_) else WordDictionary(type_)


def is_text(type_: pa.DataType) -> bool:
    """Whether values of a type have no fixed size here, as texts, bytes and decimals have none."""
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(holds(type_) for holds in (*texts, pa.types.is_decimal))


def normal_key(key: pa.Array) -> pa.Array:
    """The same with one zero and one NaN."""
    if not pa.types.is_floating(key.type):
        return key
    valid = key.is_valid().to_numpy(zero_copy_only=False)
    numbers = key.fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers, mask=~valid, from_pandas=False)


def words_of(column: pa.Array) -> Ints:
    """Values of fixed size as 64 bits, equal where they are equal; 0 for NULL."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if not pa.types.is_primitive(column.type):
        raise pa.ArrowNotImplementedError(f"values of {column.type} have no fixed size")
    if pa.types.is_boolean(column.type):
        bits = column.cast(pa.int8())
    else:
        bits = normal_key(column).view(_BITS[column.type.bit_width])
    plain = bits.fill_null(0) if bits.null_count else bits
    return plain.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def texts_of(column: pa.Array) -> tuple[Ints, Bytes]:
    """The bounds of values in their bytes, and the bytes."""
    # A decimal of a given scale has one text.
    plain = column.cast(pa.string()) if pa.types.is_decimal(column.type) else column
    wide = plain.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    if not len(wide):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    first, end = int(bounds[0]), int(bounds[-1])
    # Copies: kernels are compiled for arrays that can be written to.
    texts = np.frombuffer(data, np.uint8)[first:end].copy() if end > first else np.empty(0, np.uint8)
    return bounds - first, texts


def valid_of(column: pa.Array) -> Bools:
    """Which values are not NULL; an empty array where none is."""
    if not column.null_count:
        return _ALL_VALID
    return np.array(column.is_valid())


def row_hashes(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """A hash of each row: those of equal rows are equal."""
    hashes = np.zeros(rows, np.uint64)
    for column in columns:
        if is_text(column.type):
            _hash_texts(hashes, *texts_of(column), valid_of(column), _SEED)
        else:
            _hash_words(hashes, words_of(column), valid_of(column), _SEED)
    return hashes


def _longer(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy with as much room again; readers of the old one are not disturbed."""
    return np.append(values, np.empty_like(values))


def _no_places(values: int) -> Places:
    return np.full(2 * values, -1, np.int32)


def _nulls(numbers: Ints, null: Ints) -> Bools | None:
    return numbers == null[0] if null[0] >= 0 else None


@kernel
def _mixed(x: Any) -> Any:
    """A bijection on 64 bits that spreads neighbours: the finisher of splitmix64."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _text_hash(data: Bytes, begin: int, end: int, seed: Any) -> Any:
    """FNV-1a, and then mixed."""
    x = seed
    for i in range(begin, end):
        x = (x ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return _mixed(x)


@kernel
def _number_words(
    given: tuple[Ints, Bools, Ints], done: int, table: tuple[Ints, Places, Ints], count: int, seed: Any
) -> tuple[int, int]:
    """Number words from `done` on. How many are done, fewer than all where there is no more room, and the count of values."""
    words, valid, numbers = given
    known, places, null = table
    mask = np.uint64(len(places) - 1)
    for i in range(done, len(words)):
        if len(valid) > 0 and not valid[i]:
            if null[0] < 0:
                if count == len(known):
                    return i, count
                known[count] = 0
                null[0] = count
                count += 1
            numbers[i] = null[0]
            continue
        word = words[i]
        place = _mixed(np.uint64(word) ^ seed) & mask
        while places[place] >= 0 and known[places[place]] != word:
            place = (place + np.uint64(1)) & mask
        if places[place] < 0:
            if count == len(known):
                return i, count
            known[count] = word
            places[place] = count
            count += 1
        numbers[i] = places[place]
    return len(words), count


@kernel
def _place_words(known: Ints, places: Places, null: Ints, count: int, seed: Any) -> None:
    """Put all values into an empty table."""
    mask = np.uint64(len(places) - 1)
    for number in range(count):
        if number != null[0]:
            place = _mixed(np.uint64(known[number]) ^ seed) & mask
            while places[place] >= 0:
                place = (place + np.uint64(1)) & mask
            places[place] = number


@kernel
def _is_text(bounds: Ints, texts: Bytes, number: int, data: Bytes, begin: int, end: int) -> bool:
    """Whether a known text is the one that is looked for."""
    first, size, same = bounds[number], end - begin, 0
    if bounds[number + 1] - first != size:
        return False
    while same < size and texts[first + same] == data[begin + same]:
        same += 1
    return same == size


@kernel
def _number_texts(
    given: Ints,
    data: Bytes,
    valid: Bools,
    numbers: Ints,
    done: int,
    bounds: Ints,
    texts: Bytes,
    places: Places,
    null: Ints,
    count: int,
    seed: Any,
) -> tuple[int, int]:
    """As `_number_words`, of the texts between given bounds."""
    mask = np.uint64(len(places) - 1)
    for i in range(done, len(numbers)):
        if len(valid) > 0 and not valid[i]:
            if null[0] < 0:
                if count + 1 == len(bounds):
                    return i, count
                bounds[count + 1] = bounds[count]
                null[0] = count
                count += 1
            numbers[i] = null[0]
            continue
        begin, end = given[i], given[i + 1]
        place = _text_hash(data, begin, end, seed) & mask
        while places[place] >= 0 and not _is_text(bounds, texts, places[place], data, begin, end):
            place = (place + np.uint64(1)) & mask
        if places[place] < 0:
            first = bounds[count]
            if count + 1 == len(bounds) or first + end - begin > len(texts):
                return i, count
            texts[first : first + end - begin] = data[begin:end]
            bounds[count + 1] = first + end - begin
            places[place] = count
            count += 1
        numbers[i] = places[place]
    return len(numbers), count


@kernel
def _place_texts(bounds: Ints, texts: Bytes, places: Places, null: Ints, count: int, seed: Any) -> None:
    mask = np.uint64(len(places) - 1)
    for number in range(count):
        if number != null[0]:
            place = _text_hash(texts, bounds[number], bounds[number + 1], seed) & mask
            while places[place] >= 0:
                place = (place + np.uint64(1)) & mask
            places[place] = number


@kernel
def _hash_words(hashes: Hashes, words: Ints, valid: Bools, seed: Any) -> None:
    for i in range(len(words)):
        null = len(valid) > 0 and not valid[i]
        own = seed if null else _mixed(np.uint64(words[i]) ^ seed)
        hashes[i] = _mixed(hashes[i] * np.uint64(31) + own)


@kernel
def _hash_texts(hashes: Hashes, bounds: Ints, data: Bytes, valid: Bools, seed: Any) -> None:
    for i in range(len(hashes)):
        null = len(valid) > 0 and not valid[i]
        own = seed if null else _text_hash(data, bounds[i], bounds[i + 1], seed)
        hashes[i] = _mixed(hashes[i] * np.uint64(31) + own)
