"""Slice rows of the log in the server, as workers do, where no commit record has their cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.predicate_index import PredicateIndex
from penstock.expr.row_lists import set_bits
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.shape import Family, Measure, columns_needed
from penstock.operators.aggregate.slicer import Batch, SlicedFamily, slice_family
from penstock.operators.base.log_reader import LogReader

READ_ROWS = 1 << 18
Keep = Callable[[Ints], np.ndarray]


def slice_log(
    log_reader: LogReader,
    family: Family,
    measures: Sequence[Measure],
    first: int,
    end: int,
    width: int,
    keep: Keep | None = None,
    only: Ints | None = None,
) -> Iterator[SlicedFamily]:
    """Slice the rows in [first, end) that belong to the family and have times that `keep` accepts, some at a time.

    `only`: at these positions.
    """
    index = PredicateIndex([(1, family.static_predicate, family.stream_predicate)])
    wanted = columns_needed(family, tuple(measures))
    lost = log_reader.lost(first, end)
    if lost is not None:
        raise log_reader.missing(lost)
    versions = log_reader.static.versions()
    for low in range(first, end, READ_ROWS):
        for start, vids, columns in log_reader.runs(low, min(end, low + READ_ROWS), wanted):
            matrix = index.match_matrix(columns, vids, versions)
            chosen = set_bits(matrix.words[matrix.row_of[0]])
            times = columns[TIME_COLUMN].cast(pa.int64()).to_numpy()
            if keep is not None:
                chosen = chosen[keep(times[chosen])]
            if only is not None:
                chosen = chosen[np.isin(chosen + start, only)]
            yield slice_family(family, measures, Batch(start, times, vids, columns, versions), chosen, width)


def inside(periods: Sequence[tuple[int, int]], low: int, high: int) -> Keep:
    """Which times lie in one of the (half-open) periods and in [low, high]."""
    begins, ends = np.array([p[0] for p in periods]), np.array([p[1] for p in periods])

    def keep(times: Ints) -> np.ndarray:
        at = np.searchsorted(begins, times, side="right") - 1
        found: np.ndarray = (at >= 0) & (times < ends[np.maximum(at, 0)]) & (times >= low) & (times <= high)
        return found

    return keep
