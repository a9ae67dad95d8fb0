"""The one interface of all synopses: update, merge, advance, answer, save."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from bench.papers.storage import Saved, pack, unpack
from penstock.errors import error

Values: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

BEFORE_ALL_TIME = -(2**62)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate between two bounds. `confidence` 1 says that the truth lies between them for certain.

    `key` tells the answers of one synopsis apart: a histogram's bar, a quantile's rank, a frequent value.
    """

    value: float
    lower: float
    upper: float
    confidence: float = 1.0
    key: Any = None

    @property
    def error(self) -> float:
        """How far the truth can be from the value, at most."""
        return max(self.upper - self.value, self.value - self.lower)


NOTHING = Estimate(math.nan, math.nan, math.nan)
"""The answer of an empty window where there is no zero: SQL's NULL."""


class Synopsis(ABC):
    """A summary of the values of a window.

    Times are whole numbers that never decrease along a stream: microseconds for a time window, row numbers for a row
    window. A value is inside when `now - window < time <= now`; without a window all values are inside for ever. (SQL's
    windows include both ends: there `window` is the duration plus one microsecond.)
    """

    kind: ClassVar[str]
    repeatable: ClassVar[bool] = False
    """Whether any cut of a stream into batches gives the same bytes, or only answers within the same bounds."""
    randomised: bool = False
    """Whether the same state can answer differently when asked again, within its bounds."""

    def __init__(self, **parameters: Any) -> None:
        self.parameters = parameters
        self.window: int | None = parameters.get("window")
        self.now = BEFORE_ALL_TIME
        if self.window is not None and self.window <= 0:
            raise error("invalid_parameter", detail=f"a window of {self.window} holds nothing")

    def fresh(self) -> Self:
        """An empty one of the same kind with the same parameters."""
        return type(self)(**self.parameters)

    def update(self, values: Values, times: Ints) -> None:
        """Take a batch in time order. What is older than the clock comes in by way of a merge."""
        late = int(np.searchsorted(times, self.now))
        if late:
            before = self.fresh()
            before.update(values[:late], times[:late])
            self.merge(before)
        if late < len(times):
            self._insert(values[late:], times[late:])
            self.advance(int(times[-1]))

    def advance(self, now: int) -> None:
        """Move the clock; what has left the window is forgotten. A clock that is ahead stays."""
        if now > self.now:
            self.now = now
            self._expire()

    def merge(self, other: Self) -> None:
        """Become what one synopsis of both streams would be, within the stated bounds. `other` stays as it is."""
        if other.kind != self.kind or other.parameters != self.parameters:
            raise error("internal_error", detail=f"{self.kind} {self.parameters} cannot take in {other.parameters}")
        now = max(self.now, other.now)
        self._absorb(other)
        self.now = now
        self._expire()

    def answer(self, window: int | None = None) -> Estimate:
        """The answer of a kind that has one. `window` asks for a shorter window than the synopsis keeps."""
        (only,) = self.answers(window)
        return only

    @abstractmethod
    def answers(self, window: int | None = None) -> list[Estimate]:
        """All answers for the last `window`, the whole one if not said."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the state."""

    def save(self) -> bytes:
        return pack(Saved(self.kind, self.parameters, self.now, self._state()))

    @classmethod
    def load(cls, data: bytes) -> Self:
        return cls.restored(unpack(data))

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        loaded = cls(**saved.parameters)
        loaded.now = saved.now
        loaded._restore(saved.arrays)
        return loaded

    def oldest_inside(self, window: int | None) -> int:
        """The earliest time inside the window: of the synopsis, or a shorter one."""
        if window is None or (self.window is not None and window > self.window):
            window = self.window
        return BEFORE_ALL_TIME if window is None else self.now - window + 1

    def covered_since(self, window: int | None) -> int:
        """The earliest time that answers speak of. A kind that keeps slices rounds down to a whole one."""
        return self.oldest_inside(window)

    @abstractmethod
    def _insert(self, values: Values, times: Ints) -> None:
        """Take values that are not older than the clock."""

    @abstractmethod
    def _expire(self) -> None:
        """Forget what lies before the window."""

    @abstractmethod
    def _absorb(self, other: Self) -> None:
        """Take in another of the same kind and parameters."""

    @abstractmethod
    def _state(self) -> Arrays:
        """Everything that changes, as arrays."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Take the state from arrays, which may be read-only."""
