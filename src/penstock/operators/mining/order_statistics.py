"""Percentiles of values in order, as PERCENTILE gives them, and sorted values that come and go. Kernels."""

from __future__ import annotations

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.mining.series import Floats


@kernel
def percentile_of(ordered: Floats, count: int, fraction: float) -> float:
    """The value at a fraction of the way from the first to the last of `count` values; between two of them in proportion."""
    place = (count - 1) * fraction
    low, high = int(np.floor(place)), int(np.ceil(place))
    below, above = ordered[low], ordered[high]
    if low == high or below == above:
        return float(below)
    return float((high - place) * below + (place - low) * above)


@kernel
def insert(ordered: Floats, count: int, value: float) -> None:
    """Put one more value in its place among `count` others."""
    at = np.searchsorted(ordered[:count], value)
    for i in range(count, at, -1):
        ordered[i] = ordered[i - 1]
    ordered[at] = value


@kernel
def remove(ordered: Floats, count: int, value: float) -> None:
    """Take out a value that is among `count`."""
    at = np.searchsorted(ordered[:count], value)
    for i in range(at, count - 1):
        ordered[i] = ordered[i + 1]
