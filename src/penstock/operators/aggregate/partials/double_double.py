"""Sums in twice the precision of a double, so that the order of additions does not change the result.

A number is a pair high + low. Adding is Knuth's and Dekker's error-free transformation; about 106 bits survive.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.expr.kernel import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Pairs = tuple[Floats, Floats]

# Cuts a double into two halves of 26 bits.
_HALVES = 134217729.0
_RESOLUTION = 2.0**-102


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


@kernel
def _times(a_high: float, a_low: float, b_high: float, b_low: float) -> tuple[float, float]:
    """The product of two pairs."""
    near, rest = product(a_high, b_high)
    if not np.isfinite(near):
        return near, 0.0
    rest += a_high * b_low + a_low * b_high
    high = near + rest
    return high, rest - (high - near)


@kernel
def _over(high: float, low: float, divisor: float) -> tuple[float, float]:
    """A pair divided by a number."""
    near = high / divisor
    if not np.isfinite(near):
        return near, 0.0
    back, rest = product(near, divisor)
    left_high, left_low = added(high, low, -back, -rest)
    more = (left_high + left_low) / divisor
    total = near + more
    return total, more - (total - near)


@kernel
def product_of_sums(count: Ints, products: Pairs, x: Pairs, y: Pairs) -> Floats:
    """Per cell the sum of products about the means, from the sum of products and both sums: s - x * y / n.

    Each sum is a pair of arrays, high and low. What is no more than the rounding of so many sums is 0.
    """
    high, low = products
    x_high, x_low = x
    y_high, y_low = y
    out = np.zeros(len(count))
    for i in range(len(count)):
        if count[i] == 0:
            continue
        times_high, times_low = _times(x_high[i], x_low[i], y_high[i], y_low[i])
        mean_high, mean_low = _over(times_high, times_low, float(count[i]))
        left_high, left_low = added(high[i], low[i], -mean_high, -mean_low)
        about = left_high + left_low
        if not abs(about) <= count[i] * _RESOLUTION * abs(high[i]):
            out[i] = about
    return out
