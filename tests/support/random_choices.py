"""A planner's choice by chance: each join runs by another algorithm from step to step."""

from __future__ import annotations

import random
from collections.abc import Mapping

from penstock.operators.join.algorithms import NAMES


class RandomChoices:
    """For each step and join one of all algorithms, those that it cannot run by among them. A join meets all before any comes again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._left: dict[int, list[str]] = {}

    def __call__(self, queries: tuple[int, ...]) -> Mapping[int, str]:
        return {number: self._next(number) for number in queries}

    def _next(self, number: int) -> str:
        left = self._left.get(number) or self._random.sample(NAMES, len(NAMES))
        self._left[number] = left[1:]
        return left[0]
