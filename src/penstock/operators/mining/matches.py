"""MATCHES: where a series looks like a shape that the question draws.

Each stretch of the series that is as long as the shape is compared with it. With `normalise` only the course counts, neither height nor
size: the distance is that of both after their mean is taken away and their deviation made 1.
"""

from __future__ import annotations

import numpy as np

from penstock.errors import error
from penstock.expr.kernel import kernel
from penstock.operators.mining.series import Columns, Floats, Ints, Options, Series

MOST_WORK = 5_000_000_000
"""How many elements are compared with one of a shape in a series, at most: some seconds."""
_CONSTANT = 1e-9
"""What deviates by no more than this part of its size is constant."""
_BLOCK = 1024


def matches(series: Series, options: Options) -> Columns:
    """The first elements of the nearest stretches and their distances, the nearest first."""
    shape = np.array(options["shape"], np.float64)
    size = len(shape)
    count = max(0, len(series) - size + 1)
    if count * size > MOST_WORK:
        detail = f"MATCHES would compare a series of {len(series)} elements with a shape of {size} numbers"
        raise error("over_budget", detail=detail, hint="make the window shorter, the slots wider or the shape shorter")
    if options["normalise"]:
        alike = np.round(correlations(series.values, shape), 9)
        distances = np.sqrt(2 * size * np.maximum(1 - alike, 0.0))
    else:
        distances = np.round(distances_of(series.values, shape), 9)
    known = np.flatnonzero(~np.isnan(distances))
    order = known[np.argsort(distances[known], kind="stable")]
    chosen = _apart(order, count, size // 2, int(options["top"]))
    return series.times[chosen], distances[chosen]


@kernel
def correlations(values: Floats, shape: Floats) -> Floats:
    """By first element, the correlation of a stretch with the shape; NaN where an element is missing.

    Two constants are alike, 1. A constant and anything else are 1/2, which makes their distance the root of their length.
    """
    size, mean = len(shape), 0.0
    for value in shape:
        mean += value
    mean /= size
    about, own = np.empty(size), 0.0
    for j in range(size):
        about[j] = shape[j] - mean
        own += about[j] ** 2
    is_constant = np.sqrt(own / size) <= _CONSTANT * max(1.0, abs(mean))
    count = max(0, len(values) - size + 1)
    means, squares, found = np.zeros(count), np.zeros(count), np.zeros(count)
    for low in range(0, count, _BLOCK):
        part = slice(low, min(low + _BLOCK, count))
        for j in range(size):
            _add(means[part], values[part.start + j : part.stop + j])
        means[part] /= size
        for j in range(size):
            _add_products(values[part.start + j : part.stop + j], means[part], squares[part], found[part], about[j])
    for i in range(count):
        if np.isnan(means[i]):
            found[i] = np.nan
        elif np.sqrt(squares[i] / size) <= _CONSTANT * max(1.0, abs(means[i])):
            found[i] = 1.0 if is_constant else 0.5
        else:
            found[i] = 0.5 if is_constant else found[i] / np.sqrt(own * squares[i])
    return found


# The loops over stretches side by side are kernels of their own: so the compiler knows that it may vectorise them.


@kernel
def _add(totals: Floats, values: Floats) -> None:
    for i in range(len(totals)):
        totals[i] += values[i]


@kernel
def _add_products(values: Floats, means: Floats, squares: Floats, products: Floats, weight: float) -> None:
    for i in range(len(values)):
        off = values[i] - means[i]
        squares[i] += off * off
        products[i] += weight * off


@kernel
def _add_squares(totals: Floats, values: Floats, number: float) -> None:
    for i in range(len(totals)):
        off = values[i] - number
        totals[i] += off * off


@kernel
def distances_of(values: Floats, shape: Floats) -> Floats:
    """By first element, the Euclidean distance of a stretch from the shape; NaN where an element is missing."""
    count = max(0, len(values) - len(shape) + 1)
    found = np.zeros(count)
    for low in range(0, count, _BLOCK):
        part = slice(low, min(low + _BLOCK, count))
        for j in range(len(shape)):
            _add_squares(found[part], values[part.start + j : part.stop + j], shape[j])
    return np.sqrt(found)


@kernel
def _apart(order: Ints, count: int, reach: int, top: int) -> Ints:
    """The first of an order that start more than `reach` elements from those before them."""
    taken, found, size = np.zeros(count, np.bool_), np.empty(min(top, len(order)), np.int64), 0
    for place in order:
        if size == len(found):
            break
        if not taken[place]:
            taken[max(0, place - reach) : place + reach + 1] = True
            found[size] = place
            size += 1
    return found[:size]
