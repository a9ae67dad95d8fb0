"""Where the choices of random worlds come from: hypothesis, which shrinks, or a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Chooser(Protocol):
    """Where randomness comes from."""

    def integer(self, low: int, high: int) -> int: ...
    def pick(self, options: Sequence[T]) -> T: ...


class Seeded:
    """Choices from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)


class Drawn:
    """Choices that hypothesis makes, so that a failure shrinks."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))
