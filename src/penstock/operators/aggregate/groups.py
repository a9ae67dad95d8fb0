"""Numbers for the groups of a family, in the order in which they were first seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.objects import size_of
from penstock.types import Type

Key = tuple[Any, ...]
FEW_GROUPS = 1000
_BESIDE = 140  # about what a tuple and its place in the dictionary take, beside its values
_NAN = math.nan  # one object, so that NaNs are equal in a tuple


class Groups:
    """Numbers of group keys. A key's number never changes: renumbering makes a new object. Called under the store's lock."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._keys)

    def number(self, keys: Iterable[Key]) -> Ints:
        return np.fromiter((self._number(key) for key in keys), np.int64)

    def _number(self, key: Key) -> int:
        found = self._numbers.get(key)
        if found is not None:
            return found
        plain = tuple(_NAN if isinstance(v, float) and math.isnan(v) else v for v in key)
        found = self._numbers.get(plain)
        if found is None:
            found = self._numbers[plain] = len(self._keys)
            self._keys.append(plain)
            self._bytes += _BESIDE + sum(map(size_of, plain))
        return found

    def keys(self, groups: Ints) -> list[Key]:
        return [self._keys[g] for g in groups.tolist()]

    def without_unused(self, used: Ints) -> tuple[Groups, Ints] | None:
        """The used groups alone, and by their numbers here the new ones; None until most groups are unused."""
        if len(self) < 2 * len(used) + FEW_GROUPS:
            return None
        groups, numbers = Groups(), np.zeros(len(self), np.int64)
        numbers[used] = groups.number(self.keys(used))
        return groups, numbers

    @property
    def nbytes(self) -> int:
        return self._bytes

    def columns(self, groups: Ints, types: Sequence[Type]) -> list[pa.Array]:
        """The keys of some groups, one array per key."""
        chosen = self.keys(groups)
        return [pa.array([key[i] for key in chosen], t.to_arrow(), from_pandas=False) for i, t in enumerate(types)]
