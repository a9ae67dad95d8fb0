"""Weighted closed intervals of a number line: they give certain bounds of the weight beyond any cut.

They are the buckets of a correlated aggregate. To merge two cells, their intervals are put together, overlapping or not, and
none is ever cut. So no weight is made or lost, and only the intervals that contain the cut are uncertain.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.operators.aggregate.partials.base import Ints, Numbers

Bag = Numbers
"""An array of INTERVAL."""
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

INTERVAL = np.dtype(
    [("low", np.int64), ("high", np.int64), ("count", np.int64), ("plus", np.float64), ("minus", np.float64)]
)
_GREATEST = np.iinfo(np.int64).max


def order_keys(x: Numbers) -> Ints:
    """Whole numbers in the order of x, which they may be already: NaN is the greatest, and both zeros are one."""
    if x.dtype == np.int64:
        return x.copy()
    bits = (x + 0.0).view(np.int64)
    keys: Ints = np.where(bits < 0, bits ^ np.int64(_GREATEST), bits)
    keys[np.isnan(x)] = _GREATEST
    return keys


def key_values(keys: Ints) -> Floats:
    """The values that have these keys."""
    values: Floats = np.where(keys < 0, keys ^ np.int64(_GREATEST), keys).view(np.float64)
    return values


def points_of(x: Numbers, y: Floats) -> Bag:
    """One interval per distinct x, as short as can be, with the rows and the y of either sign that it has."""
    rows = row_by_row(x, y)
    rows = rows[np.argsort(rows["low"], kind="stable")]
    return _summed(rows["low"], rows["high"], rows["count"], rows["plus"], rows["minus"], rows["low"])


def row_by_row(x: Numbers, y: Floats) -> Bag:
    """One for each row."""
    found = np.empty(len(x), INTERVAL)
    found["low"] = found["high"] = order_keys(x)
    found["count"], found["plus"], found["minus"] = 1, np.where(y < 0, 0.0, y), np.where(y < 0, -y, 0.0)
    return found


def beyond(bag: Bag, key: int, comparison: str) -> tuple[Mask, Mask]:
    """Which intervals lie as a whole on the requested side of a value, and which lie there at least in part."""
    low, high = bag["low"], bag["high"]
    if comparison == "ge":
        return low >= key, high >= key
    if comparison == "gt":
        return low > key, high > key
    if comparison == "lt":
        return high < key, low < key
    return high <= key, low <= key


def thinned(bag: Bag, comparison: str, epsilon: float, evenly: float = np.inf) -> Bag:
    """Merge neighbours while no bucket has more rows than `epsilon` of all rows further on the requested side.

    So a cut anywhere leaves a doubt of about `epsilon` of the rows beyond it. Buckets may also have one of `evenly` parts of
    all rows, where cuts are not expected among the outermost rows. A larger single bucket stays as it is.
    """
    above = comparison in ("ge", "gt")
    order = np.lexsort((bag["high"], bag["low"]))
    bag = bag[order[::-1] if above else order]
    counts = bag["count"].astype(np.float64)
    further = np.cumsum(counts) - counts
    least = max(1.0, counts.sum() / evenly)
    heavy = counts > np.maximum(least, epsilon * further)
    # How many buckets of the allowed size lie further: `least` rows each at first, then growing with what they add up to.
    even = least / epsilon
    numbers = np.floor(np.minimum(further, even) / least + np.log(np.maximum(further / even, 1.0)) / epsilon)
    # A new number also at and behind what stays alone.
    numbers = numbers.astype(np.int64) + 2 * np.cumsum(heavy) - heavy
    return _summed(bag["low"], bag["high"], bag["count"], bag["plus"], bag["minus"], numbers)


def as_one(bag: Bag) -> Bag:
    """All of it as one interval."""
    one = np.zeros(len(bag), np.int64)
    return bag if len(bag) < 2 else _summed(bag["low"], bag["high"], bag["count"], bag["plus"], bag["minus"], one)


def _summed(low: Ints, high: Ints, counts: Ints, plus: Floats, minus: Floats, numbers: Ints) -> Bag:
    """One interval for each run of equal numbers."""
    if not len(numbers):
        return np.empty(0, INTERVAL)
    begins = np.flatnonzero(np.append(True, np.diff(numbers) != 0))
    found = np.empty(len(begins), INTERVAL)
    found["low"] = np.minimum.reduceat(low, begins)
    found["high"] = np.maximum.reduceat(high, begins)
    for name, weights in (("count", counts), ("plus", plus), ("minus", minus)):
        found[name] = np.add.reduceat(weights, begins)
    return found
