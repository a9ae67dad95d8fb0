"""Groups as numbers: rows with equal keys get the same number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints


def number_groups(keys: Sequence[pa.Array], rows: int) -> tuple[Ints, list[pa.Array]]:
    """Each row's group, counted from 0, and the groups' keys. NULLs are equal, and so are NaNs and both zeros."""
    groups = np.zeros(rows, np.int64)
    values: list[pa.Array] = []
    for key in keys:
        encoded = normal_key(key).dictionary_encode(null_encoding="encode")
        codes, count = encoded.indices.to_numpy().astype(np.int64), max(1, len(encoded.dictionary))
        found, first, groups = np.unique(groups * count + codes, return_index=True, return_inverse=True)
        values = [value.take(pa.array(found // count)) for value in values]
        values.append(encoded.dictionary.take(pa.array(codes[first])))
    return groups, values


def normal_key(key: pa.Array) -> pa.Array:
    """The same with one zero and one NaN."""
    if not pa.types.is_floating(key.type):
        return key
    valid = key.is_valid().to_numpy(zero_copy_only=False)
    numbers = key.fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers, mask=~valid, from_pandas=False)
