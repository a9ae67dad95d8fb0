"""Numbers for the groups of a family, in the order in which they were first seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.expression import Expr
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.base.dictionaries import WordDictionary, dictionary_of

FEW_GROUPS = 1000
_HALF, _LOW = 32, (1 << 32) - 1


class Groups:
    """Numbers of group keys. A key's number never changes: renumbering makes a new object.

    Each key has a dictionary of its values. With several keys, a dictionary of pairs numbers those of the first two, the next one pairs of
    such a number and the third key, and so on. `number` is called under the store's lock; known groups can be read without it.
    """

    def __init__(self, types: Sequence[pa.DataType] = ()) -> None:
        self._types = tuple(types)
        self._values = [dictionary_of(type_) for type_ in self._types]
        self._pairs = [WordDictionary() for _ in self._types[1:]]
        self._ranks = np.empty(0, np.int32)
        self._one = 0  # 1 once the only group of a family without keys has been seen

    @staticmethod
    def by(keys: Sequence[Expr]) -> Groups:
        """No groups yet, of these keys."""
        return Groups([key.type.to_arrow() for key in keys])

    def __len__(self) -> int:
        return len((*self._values[:1], *self._pairs)[-1]) if self._types else self._one

    def number(self, keys: Sequence[pa.Array], rows: int = 1) -> Ints:
        """The group of each row; without keys of `rows` rows, which are all of one group."""
        if not self._types:
            self._one = 1
            return np.zeros(rows, np.int64)
        first, *others = (
            values.number(key.cast(type_)) for values, key, type_ in zip(self._values, keys, self._types, strict=True)
        )
        for pairs, other in zip(self._pairs, others, strict=True):
            first = pairs.number_words(first << _HALF | other)
        return first

    def columns(self, groups: Ints) -> list[pa.Array]:
        """The keys of some groups, one array per key."""
        if not self._types:
            return []
        numbers = []
        for pairs in reversed(self._pairs):
            words = pairs.words(groups)
            numbers.append(words & _LOW)
            groups = words >> _HALF
        return [values.take(each) for values, each in zip(self._values, (groups, *reversed(numbers)), strict=True)]

    def in_order(self, windows: Ints, groups: Ints) -> Ints:
        """The places of lines by window and key, NULL last; each pair of both is there once."""
        if not self._types:
            return np.arange(len(groups))  # of one group, windows are in order
        ranks = self._ranked()
        own = ranks[groups]
        if len(windows) and (windows != windows[0]).any():
            return np.lexsort((own, windows))
        lines = np.full(len(ranks), -1)
        lines[own] = np.arange(len(own))
        return lines[lines >= 0]

    def _ranked(self) -> npt.NDArray[np.int32]:
        """The place of each group among all of them in the order of their keys. It is found again when there are new ones."""
        count, ranks = len(self), self._ranks
        if len(ranks) != count:
            names = [str(place) for place in range(len(self._types))]
            keys = pa.table(self.columns(np.arange(count)), names)
            ranks = np.empty(count, np.int32)
            ranks[pc.sort_indices(keys, [(name, "ascending") for name in names])] = np.arange(count)
            self._ranks = ranks
        return ranks

    def without_unused(self, used: Ints) -> tuple[Groups, Ints] | None:
        """The used groups alone, and by their numbers here the new ones; None until most groups are unused."""
        if len(self) < 2 * len(used) + FEW_GROUPS:
            return None
        groups, numbers = Groups(self._types), np.zeros(len(self), np.int64)
        numbers[used] = groups.number(self.columns(used), len(used))
        return groups, numbers

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; 0 as long as there are no groups, so that a family that was emptied fits into any budget."""
        if not len(self):
            return 0
        return self._ranks.nbytes + sum(each.nbytes for each in (*self._values, *self._pairs))
