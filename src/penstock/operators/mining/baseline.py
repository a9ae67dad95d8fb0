"""BASELINE: what is usual at each place of a season, such as each hour of the week."""

from __future__ import annotations

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.mining.order_statistics import percentile_of
from penstock.operators.mining.series import Columns, Floats, Ints, Options, Series


def baseline(series: Series, options: Options) -> Columns:
    """A line per place of the season that has a value: median, percentiles and how many. Slots are counted from the epoch."""
    season, level = int(options["season"]), float(options["level"])
    present = ~np.isnan(series.values)
    places = (series.times[present] // max(series.every_us, 1)) % season
    order = np.lexsort((series.values[present], places))
    values = series.values[present][order]
    known, begins, counts = np.unique(places[order], return_index=True, return_counts=True)
    expected, lower, upper = _percentiles(values, begins, counts, np.array([0.5, (1 - level) / 2, (1 + level) / 2]))
    return known, expected, lower, upper, counts


@kernel
def _percentiles(values: Floats, begins: Ints, counts: Ints, fractions: Floats) -> Floats:
    """Some percentiles of each stretch of ordered values."""
    found = np.empty((len(fractions), len(begins)))
    for i in range(len(begins)):
        for k in range(len(fractions)):
            found[k, i] = percentile_of(values[begins[i] :], counts[i], fractions[k])
    return found
