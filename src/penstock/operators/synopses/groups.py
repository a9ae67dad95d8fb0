"""A synopsis per group: thousands of them, updated with one batch."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from penstock.operators.synopses.base import Ints, Synopsis, Values


class Groups:
    """Synopses of one kind and the same parameters, made when a group's first value comes."""

    def __init__(self, pattern: Synopsis) -> None:
        self.pattern = pattern
        self.found: dict[Any, Synopsis] = {}

    def update(self, keys: Sequence[Hashable], codes: Ints, values: Values, times: Ints) -> None:
        """A batch in time order; row i belongs to the group `keys[codes[i]]`."""
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(keys) + 1))
        values, times = values[order], times[order]
        for number, key in enumerate(keys):
            begin, end = starts[number], starts[number + 1]
            if begin < end:
                self.of(key).update(values[begin:end], times[begin:end])

    def of(self, key: Hashable) -> Synopsis:
        found = self.found.get(key)
        if found is None:
            found = self.found[key] = self.pattern.fresh()
        return found

    def advance(self, now: int) -> None:
        for synopsis in self.found.values():
            synopsis.advance(now)

    def __iter__(self) -> Iterator[tuple[Any, Synopsis]]:
        return iter(self.found.items())

    @property
    def nbytes(self) -> int:
        return sum(synopsis.nbytes for synopsis in self.found.values())
