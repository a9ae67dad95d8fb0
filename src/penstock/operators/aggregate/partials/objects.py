"""Values that are no machine numbers: TEXT, DECIMAL and BINARY as Python objects, which can be compared."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Numbers

# Memory is asked for at each cycle: of many cells some speak for all, always the same and in no step that cells could keep.
_LOOKED_AT = 256
_SPREAD = np.random.default_rng(20).random(_LOOKED_AT)


def objects_of(values: pa.Array) -> Numbers:
    """Values as they are in Python, None for NULL."""
    found: Numbers = np.empty(len(values), object)
    found[:] = values.to_pylist()
    return found


def object_bytes(field: Numbers, other: Numbers) -> int:
    """What the values of two fields of the same cells take, about so where they are many; what is in both counts once."""
    count, places = len(field), _places(len(field))
    ours, others = field[places].tolist(), other[places].tolist()
    found = [value for value in ours if value is not None]
    found += [value for known, value in zip(ours, others, strict=True) if value is not None and value is not known]
    nested = bool(found) and isinstance(found[0], list | dict)
    return sum(map(size_of if nested else sys.getsizeof, found)) * count // max(1, len(ours))


def item_bytes(field: Numbers) -> int:
    """What the values take that cells keep in arrays, about so: one of each array speaks for the others in it."""
    arrays = [each for each in field[_places(len(field))].tolist() if each is not None and len(each)]
    sizes = [len(each) * size_of(each[int(share * len(each))]) for each, share in zip(arrays, _SPREAD, strict=False)]
    return sum(sizes) * len(field) // max(1, min(len(field), _LOOKED_AT))


def shared_bytes(field: Numbers) -> int:
    """What the values of a field take that cells share, about so where they are many: each object counts once."""
    looked = [value for value in field[_places(len(field))].tolist() if value is not None]
    distinct = {id(value): value for value in looked}
    found = sum(map(size_of, distinct.values()))
    return found * len(field) // min(len(field), _LOOKED_AT) if 2 * len(distinct) > len(looked) else found


def size_of(value: Any) -> int:
    """Bytes of a value and of what is in it; NULL takes none."""
    if value is None:
        return 0
    if isinstance(value, list | tuple):
        return sys.getsizeof(value) + sum(map(size_of, value))
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(map(size_of, value.values()))
    return sys.getsizeof(value)


def _places(count: int) -> Any:
    return slice(None) if count <= _LOOKED_AT else (_SPREAD * count).astype(np.int64)
