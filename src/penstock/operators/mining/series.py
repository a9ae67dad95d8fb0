"""A series: the elements that a mining function sees of one group, in time order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Options: TypeAlias = Mapping[str, Any]
"""The named arguments of a call, all of them. Lengths of time are numbers of elements."""
Columns: TypeAlias = tuple[npt.NDArray[Any], ...]
"""The fields of a result, a line per element of its array. A DOUBLE that is NaN is NULL."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Slots of `every_us` microseconds by their beginnings or, where that is 0, single readings by their times.

    `values` has NaN where a slot has no reading. The first element has one. `before` counts the slots of the window in front
    of it, none of which has a reading. With `words` the elements are symbols, or sets of them, and `values` their places there.
    """

    times: Ints
    values: Floats
    before: int = 0
    every_us: int = 0
    words: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def equals(self, other: Series) -> bool:
        """Whether both have the same elements at the same place of the window."""
        same = len(self) == len(other) and self.before == other.before and self.every_us == other.every_us
        return same and np.array_equal(self.times, other.times) and np.array_equal(self.values, other.values, True)


NOTHING = Series(np.empty(0, np.int64), np.empty(0))


def symbols_of(series: Series, levels: tuple[float, ...] | None) -> tuple[Ints, Ints, tuple[Any, ...]]:
    """The places of elements that have one, by number; their symbols, as places in the words that come last.

    The symbol of a number is how many of the levels are at most the number.
    """
    at = np.flatnonzero(~np.isnan(series.values))
    values = series.values[at]
    if series.words or levels is None:
        return at, values.astype(np.int64), series.words
    return at, np.searchsorted(np.array(levels), values, side="right"), tuple(range(len(levels) + 1))


def text_of(symbol: Any) -> str:
    """A symbol as results have it."""
    return str(symbol).lower() if isinstance(symbol, bool) else str(symbol)


def elements(series: Series, options: Options) -> Columns:
    """SERIES: the elements themselves."""
    return series.times, series.values
