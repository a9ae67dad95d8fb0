"""A landmark sketch per slice of time; a window is the union of its slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import orjson

from bench.papers.base import Arrays, Estimate, Ints, Synopsis, Values
from bench.papers.composite import joined_bytes, separate_bytes
from bench.papers.landmark import LANDMARKS, Landmark
from penstock.errors import error


class Sliced(Synopsis):
    """Slices of `step`, aligned to time 0. Answers speak of whole slices: from the start of the one that holds the window's begin."""

    kind = "sliced"

    def __init__(self, *, of: str, window: int, step: int, inner: Mapping[str, Any] | None = None) -> None:
        super().__init__(of=of, window=window, step=step, inner=orjson.loads(orjson.dumps(inner or {})))
        if step <= 0 or of not in LANDMARKS:
            raise error("invalid_parameter", detail=f'there are no slices of {step} of "{of}"')
        self.step = step
        self.randomised = LANDMARKS[of].randomised
        self.slices: dict[int, Landmark] = {}

    def covered_since(self, window: int | None) -> int:
        return self.oldest_inside(window) // self.step * self.step

    def answers(self, window: int | None = None) -> list[Estimate]:
        first = self.covered_since(window) // self.step
        union = self._empty()
        for number, sketch in self.slices.items():
            if number >= first:
                union.merge(sketch)
        return union.answers()

    @property
    def nbytes(self) -> int:
        return sum(sketch.nbytes for sketch in self.slices.values())

    def _empty(self) -> Landmark:
        return LANDMARKS[self.parameters["of"]](**self.parameters["inner"])

    def _insert(self, values: Values, times: Ints) -> None:
        numbers = times // self.step
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        for begin, end in zip(starts, [*starts[1:], len(times)], strict=True):
            sketch = self.slices.setdefault(int(numbers[begin]), self._empty())
            sketch.update(values[begin:end], times[begin:end])

    def _expire(self) -> None:
        first = self.covered_since(None) // self.step
        self.slices = {number: sketch for number, sketch in self.slices.items() if number >= first}

    def _absorb(self, other: Self) -> None:
        for number, sketch in other.slices.items():
            self.slices.setdefault(number, self._empty()).merge(sketch)

    def _state(self) -> Arrays:
        numbers = np.array(list(self.slices), np.int64)
        return {"numbers": numbers, **joined_bytes([s.save() for s in self.slices.values()])}

    def _restore(self, arrays: Arrays) -> None:
        sketches = [type(self._empty()).load(data) for data in separate_bytes(arrays)]
        self.slices = dict(zip(arrays["numbers"].tolist(), sketches, strict=True))
