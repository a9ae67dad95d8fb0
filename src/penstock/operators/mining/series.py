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
    of it, none of which has a reading.
    """

    times: Ints
    values: Floats
    before: int = 0
    every_us: int = 0

    def __len__(self) -> int:
        return len(self.values)

    def equals(self, other: Series) -> bool:
        """Whether both have the same elements at the same place of the window."""
        same = len(self) == len(other) and self.before == other.before and self.every_us == other.every_us
        return same and np.array_equal(self.times, other.times) and np.array_equal(self.values, other.values, True)


NOTHING = Series(np.empty(0, np.int64), np.empty(0))


def elements(series: Series, options: Options) -> Columns:
    """SERIES: the elements themselves."""
    return series.times, series.values
