"""The difference of two tables as arrays: which rows one of them has more often than the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.base.dictionaries import Bools, Hashes, TextDictionary, is_text, row_hashes, words_of

Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
FEW_ROWS = 200
_AHEAD = 32
"""So many rows that came or went side by side are stepped over."""


def row_difference(rows: pa.Table, other: pa.Table) -> tuple[Ids, Ids]:
    """Which rows are not among the others, as often as they are there, and which of the others are not among the rows."""
    mine, theirs = np.arange(rows.num_rows), np.arange(other.num_rows)
    pairs = [pair for columns in zip(rows.columns, other.columns, strict=True) for pair in _comparable(*columns)]
    if pairs and len(mine) + len(theirs) > FEW_ROWS:
        mine, theirs = unpaired(pairs, [row_hashes(columns, len(columns[0])) for columns in zip(*pairs, strict=True)])
        pairs = [(one.take(pa.array(mine)), two.take(pa.array(theirs))) for one, two in pairs]
    columns, count = [pa.concat_arrays(pair) for pair in pairs], len(mine) + len(theirs)
    numbers = _few_numbers(columns) if columns and count <= FEW_ROWS else number_groups(columns, count)[0]
    own, others = np.split(numbers, [len(mine)])
    return mine[_surplus(own, others)], theirs[_surplus(others, own)]


def unpaired(pairs: Sequence[tuple[pa.Array, pa.Array]], hashes: Sequence[Hashes]) -> tuple[Ids, Ids]:
    """The rows without most of those that both sides have in the same order, as two answers in a row have nearly all of theirs."""
    found = _in_order(*hashes)
    index = [pa.array(each) for each in found]
    equal = np.logical_and.reduce([_equal(one.take(index[0]), two.take(index[1])) for one, two in pairs])
    left = []
    for own, each in zip(hashes, found, strict=True):
        alone = np.ones(len(own), np.bool_)
        alone[each[equal]] = False
        left.append(np.flatnonzero(alone))
    return left[0], left[1]


@kernel
def _in_order(one: Hashes, two: Hashes) -> tuple[Ids, Ids]:
    """Pairs of rows with equal hashes, ascending in both; few are missed where few rows came or went."""
    most = min(len(one), len(two))
    ones, twos = np.empty(most, np.int64), np.empty(most, np.int64)
    i = j = count = 0
    while i < len(one) and j < len(two):
        if one[i] == two[j]:
            ones[count], twos[count] = i, j
            count += 1
            i += 1
            j += 1
            continue
        ahead = 1
        while ahead <= _AHEAD:
            if i + ahead < len(one) and one[i + ahead] == two[j]:
                i += ahead
                break
            if j + ahead < len(two) and two[j + ahead] == one[i]:
                j += ahead
                break
            ahead += 1
        if ahead > _AHEAD:  # the same row with another value
            i += 1
            j += 1
    return ones[:count], twos[:count]


def _equal(one: pa.Array, two: pa.Array) -> Bools:
    """Where values are equal, NULL and NaN to themselves, too."""
    if is_text(one.type):
        same = pc.or_kleene(pc.equal(one, two), pc.and_(one.is_null(), two.is_null()))
        return np.array(same.fill_null(False))
    found: Bools = (words_of(one) == words_of(two)) & (np.array(one.is_valid()) == np.array(two.is_valid()))
    return found


def _surplus(numbers: Ids, others: Ids) -> Ids:
    """Which of some numbers are not among others as often."""
    known = np.bincount(others, minlength=int(numbers.max(initial=-1)) + 1)
    # The how-manieth of its equals each one is, counted from 0.
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    place = np.empty(len(numbers), np.int64)
    place[order] = np.arange(len(numbers)) - np.repeat(begins, np.diff(np.append(begins, len(numbers))))
    return np.flatnonzero(place >= known[numbers])


def _few_numbers(columns: Sequence[pa.Array]) -> Ids:
    """As `number_groups` does it, at less cost for each column and more for each row."""
    known: dict[tuple[Any, ...], int] = {}
    rows = zip(*map(_values, columns), strict=True)
    return np.array([known.setdefault(row, len(known)) for row in rows], np.int64)


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_floating(column.type):
        return ["NaN" if value != value else value for value in column.to_pylist()]
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()  # type: ignore[no-any-return]


def _comparable(column: pa.ChunkedArray, other: pa.ChunkedArray) -> list[tuple[pa.Array, pa.Array]]:
    """Two columns of one type, as pairs of columns whose values can be hashed and numbered."""
    return _flat_pairs(column.combine_chunks(), other.cast(column.type).combine_chunks())


def _flat_pairs(one: pa.Array, two: pa.Array) -> list[tuple[pa.Array, pa.Array]]:
    """Structs as their fields, arrays as bytes that are equal where they are."""
    if pa.types.is_struct(one.type):
        fields = zip(one.flatten(), two.flatten(), strict=True)
        return [(one.is_valid(), two.is_valid()), *(pair for field in fields for pair in _flat_pairs(*field))]
    if not pa.types.is_nested(one.type):
        return [(one, two)]
    # Elements have as many bytes each, so arrays are equal where all their bytes are.
    columns = [_words_of_both(*pair) for pair in _flat_pairs(one.flatten(), two.flatten())]
    sides = zip((one, two), zip(*columns, strict=True), strict=True)
    return [tuple(_as_bytes(array, words) for array, words in sides)]


def _words_of_both(one: pa.Array, two: pa.Array) -> tuple[list[Ids], list[Ids]]:
    """Each value of two columns in 64 bits, the same for equal ones; where there are NULLs, another column says so."""
    if is_text(one.type):
        known = TextDictionary(one.type)
        return [known.number(one)], [known.number(two)]
    if not one.null_count and not two.null_count:
        return [words_of(one)], [words_of(two)]
    own, others = ([words_of(each), np.array(each.is_valid()).astype(np.int64)] for each in (one, two))
    return own, others


def _as_bytes(array: pa.Array, columns: Sequence[list[Ids]]) -> pa.Array:
    """An array per row as the words of its elements, one after the other."""
    words = np.column_stack([column for each in columns for column in each])
    sizes = np.array(pc.list_value_length(array).fill_null(0), np.int64) * (8 * words.shape[1])
    bounds, data = np.concatenate([[0], np.cumsum(sizes)]), np.ascontiguousarray(words)
    valid = pa.array(np.array(array.is_valid())).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.large_binary(), len(array), [valid, pa.py_buffer(bounds), pa.py_buffer(data)])
