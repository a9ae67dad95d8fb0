"""Sums in twice the precision of a double, so that the order and the grouping of what is added leave no trace in it.

A number is a pair high + low. Adding is Knuth's and Dekker's error-free transformation; about 106 bits survive.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.operators.kernel import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Cuts a double into two halves of 26 bits.
_HALVES = 134217729.0


@kernel
def added(high: float, low: float, more_high: float, more_low: float) -> tuple[float, float]:
    """The sum of two pairs, as a pair."""
    total = high + more_high
    if not np.isfinite(total):
        return total, 0.0
    rest = total - high
    error = (high - (total - rest)) + (more_high - rest)
    error += low + more_low
    near = total + error
    return near, error - (near - total)


@kernel
def product(a: float, b: float) -> tuple[float, float]:
    """a * b as a pair."""
    near = a * b
    if not np.isfinite(near) or abs(a) > 1e150 or abs(b) > 1e150:
        return near, 0.0
    cut = _HALVES * a
    a_high = cut - (cut - a)
    a_low = a - a_high
    cut = _HALVES * b
    b_high = cut - (cut - b)
    b_low = b - b_high
    return near, ((a_high * b_high - near) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def add_rows(high: Floats, low: Floats, at: Ints, numbers: Floats) -> None:
    for i in range(len(at)):
        c = at[i]
        high[c], low[c] = added(high[c], low[c], numbers[i], 0.0)


@kernel
def add_products(high: Floats, low: Floats, at: Ints, a: Floats, b: Floats) -> None:
    for i in range(len(at)):
        c = at[i]
        near, rest = product(a[i], b[i])
        high[c], low[c] = added(high[c], low[c], near, rest)


@kernel
def add_pairs(high: Floats, low: Floats, at: Ints, more_high: Floats, more_low: Floats) -> None:
    for i in range(len(at)):
        c = at[i]
        high[c], low[c] = added(high[c], low[c], more_high[i], more_low[i])
