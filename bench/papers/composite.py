"""A synopsis made of others: one per bar of a histogram, sum and count of an average."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import numpy as np

from bench.papers.base import Arrays, Synopsis


class Composite(Synopsis):
    """Parts that always see the same clock. Subclasses set `parts` and say who gets which values."""

    parts: Sequence[Synopsis]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def _expire(self) -> None:
        for part in self.parts:
            part.advance(self.now)

    def _absorb(self, other: Self) -> None:
        for part, more in zip(self.parts, other.parts, strict=True):
            part.merge(more)

    def _state(self) -> Arrays:
        return joined_bytes([part.save() for part in self.parts])

    def _restore(self, arrays: Arrays) -> None:
        self.parts = [type(part).load(data) for part, data in zip(self.parts, separate_bytes(arrays), strict=True)]


def joined_bytes(saved: Sequence[bytes]) -> Arrays:
    ends = np.cumsum([0, *(len(s) for s in saved)]).astype(np.int64)
    return {"saved": np.frombuffer(b"".join(saved), np.uint8), "ends": ends}


def separate_bytes(arrays: Arrays) -> list[bytes]:
    whole = arrays["saved"].tobytes()
    return [whole[a:b] for a, b in pairwise(arrays["ends"].tolist())]
