"""From keys to row versions, whole arrays at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Int32s = np.ndarray[Any, np.dtype[np.int32]]


class KeyFinder:
    """Looks keys up among those of the live rows. Immutable; threads may share it.

    Key columns are folded into one from the left: a pair of columns becomes a column of numbers, one for each
    pair that exists. So no text of one key can run into the next, and any number of columns costs the same each.
    """

    def __init__(self, columns: list[pa.ChunkedArray], vids: Int32s) -> None:
        self._types = [c.type for c in columns]
        known = [_comparable(c.combine_chunks()) for c in columns]
        self._known = [k.unique() if len(known) > 1 else k for k in known]
        self._pairs: list[pa.Array] = []
        codes = pc.index_in(known[0], value_set=self._known[0])
        for column, values in zip(known[1:], self._known[1:], strict=True):
            pairs = _pair(codes, pc.index_in(column, value_set=values), len(values))
            self._pairs.append(pairs.unique())
            codes = pc.index_in(pairs, value_set=self._pairs[-1])
        self._vids = np.full(len(vids), -1, np.int32)
        self._vids[codes.to_numpy()] = vids

    def find(self, keys: list[pa.Array | pa.ChunkedArray]) -> Int32s:
        """The vid of each key, -1 where there is none."""
        if len(self._vids) == 0:
            return np.full(len(keys[0]), -1, np.int32)
        codes = self._codes(keys[0], 0)
        for number, pairs in enumerate(self._pairs, start=1):
            both = _pair(codes, self._codes(keys[number], number), len(self._known[number]))
            codes = pc.index_in(both, value_set=pairs)
        found: Int32s = self._vids[pc.fill_null(codes, 0).to_numpy(zero_copy_only=False)]
        if codes.null_count:
            found[pc.is_null(codes).to_numpy(zero_copy_only=False)] = -1
        return found

    def _codes(self, keys: pa.Array | pa.ChunkedArray, number: int) -> pa.Array:
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        if pa.types.is_dictionary(keys.type):
            return self._codes(keys.dictionary, number).take(keys.indices)
        wanted = _comparable(_as_type(keys, self._types[number]))
        return pc.index_in(wanted, value_set=self._known[number], skip_nulls=True)


def _pair(left: pa.Array, right: pa.Array, count: int) -> pa.Array:
    """One number for two codes, NULL where either is; `right` is below `count`."""
    return pc.add(pc.multiply(left.cast(pa.int64()), count), right.cast(pa.int64()))


def _comparable(values: pa.Array) -> pa.Array:
    # Zero has two bit patterns, which hashing would tell apart; adding zero leaves one of them.
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


def _as_type(keys: pa.Array, type_: pa.DataType) -> pa.Array:
    """Keys in the type of their column, NULL for those that no value of it equals."""
    if keys.type == type_:
        return keys
    if pa.types.is_int64(keys.type) and pa.types.is_int32(type_):
        low, high = pa.scalar(-(2**31), pa.int64()), pa.scalar(2**31 - 1, pa.int64())
        fits = pc.and_(pc.greater_equal(keys, low), pc.less_equal(keys, high))
        return pc.if_else(fits, keys, None).cast(type_)
    try:
        return keys.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # A client sent what the column cannot hold; it is not worth more than a walk over the distinct ones.
        encoded = keys.dictionary_encode()
        values = [_scalar_as(value, type_) for value in encoded.dictionary]
        return pa.array(values, type_).take(encoded.indices)


def _scalar_as(value: pa.Scalar, type_: pa.DataType) -> Any:
    try:
        return value.cast(type_).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
