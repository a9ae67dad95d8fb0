"""BASELINE: what is usual at each place of a season, such as each hour of the week."""

from __future__ import annotations

import numpy as np

from penstock.operators.mining.order_statistics import percentile_of
from penstock.operators.mining.series import Columns, Options, Series


def baseline(series: Series, options: Options) -> Columns:
    """A line per place of the season that has a value: median, percentiles and how many. Slots are counted from the epoch."""
    season, level = int(options["season"]), float(options["level"])
    present = ~np.isnan(series.values)
    places = (series.times[present] // max(series.every_us, 1)) % season
    order = np.lexsort((series.values[present], places))
    values = series.values[present][order]
    known, begins, counts = np.unique(places[order], return_index=True, return_counts=True)
    lines = [
        [percentile_of(values[begin : begin + n], n, fraction) for fraction in (0.5, (1 - level) / 2, (1 + level) / 2)]
        for begin, n in zip(begins.tolist(), counts.tolist(), strict=True)
    ]
    expected, lower, upper = np.array(lines).reshape(-1, 3).T
    return known, expected, lower, upper, counts
