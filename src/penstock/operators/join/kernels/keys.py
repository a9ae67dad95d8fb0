"""Join keys as 64-bit numbers: equal keys give equal numbers, in every process and on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.kernel import kernel

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
# Fewer new rows than this are done before sharing them out would pay.
_ENOUGH = 5_000
_SAMPLE = 20_000
# So many neighbours in the log go to one part: few, so that a burst is shared out too.
_STRIPE = 4


def is_exact(types: Sequence[pa.DataType]) -> bool:
    """Whether different keys always get different numbers, so that keys with equal numbers need not be compared."""
    return len(types) == 1 and (
        pa.types.is_integer(types[0]) or pa.types.is_timestamp(types[0]) or pa.types.is_boolean(types[0])
    )


def key_numbers(columns: Sequence[pa.Array]) -> tuple[Ints, Bools]:
    """One number per row, and which rows have a key at all: NULL equals nothing."""
    numbers = _numbers(columns[0])
    for column in columns[1:]:
        numbers = _mixed(numbers * np.int64(31) + _numbers(column))
    known = np.ones(len(numbers), np.bool_)
    for column in columns:
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    return numbers, known


def _numbers(column: pa.Array) -> Ints:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_boolean(kind):
        whole = column.cast(pa.int64()) if not pa.types.is_boolean(kind) else column.cast(pa.int8()).cast(pa.int64())
        numbers: Ints = (whole.fill_null(0) if whole.null_count else whole).to_numpy()
        return _mixed(numbers)
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0  # -0.0 equals 0.0
        values = np.where(np.isnan(values), np.nan, values)
        return _mixed(values.view(np.int64))
    encoded = column if pa.types.is_string(kind) or pa.types.is_binary(kind) else column.cast(pa.string())
    encoded = encoded.dictionary_encode()
    known = [_text_number(v) for v in encoded.dictionary.to_pylist()]
    codes = pc.fill_null(encoded.indices, 0).to_numpy()
    found: Ints = np.array(known or [0], np.int64)[codes]
    return found


def _text_number(value: str | bytes) -> int:
    raw = value.encode() if isinstance(value, str) else value
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little", signed=True)


@kernel
def _mixed(values: Ints) -> Ints:
    """A bijection on 64 bits that spreads neighbours: the finisher of splitmix64."""
    out = np.empty(len(values), np.int64)
    for i in range(len(values)):
        x = np.uint64(values[i])
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
        out[i] = np.int64(x)
    return out


def part_of(numbers: Ints, parts: int) -> Ints:
    """Which of `parts` ranges of the number space each key belongs to."""
    high = (numbers.view(np.uint64) >> np.uint64(32)).astype(np.uint64)
    return ((high * np.uint64(parts)) >> np.uint64(32)).astype(np.int64)


def hot_keys(keys: Sequence[Ints], parts: int) -> Ints:
    """Keys so frequent that the part that owns one would still work while all others wait.

    They have at least half of one part's share of the new rows. Follows from the rows, so all parts agree.
    """
    total = sum(map(len, keys))
    if parts < 2 or total < _ENOUGH:
        return np.empty(0, np.int64)
    step = max(1, total // _SAMPLE)
    sample = np.concatenate(keys)[::step]
    found, counts = np.unique(sample, return_counts=True)
    hot: Ints = found[counts * 2 * parts >= len(sample)]
    return hot


def shared_out(positions: Ints, part: int, parts: int) -> Bools:
    """One part's share of rows that no key assigns to a part. It depends on their log positions only."""
    mine: Bools = positions // _STRIPE % parts == part
    return mine
