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
Keep = Callable[[Ints, Ints], np.ndarray]
"""Which rows count, by their times and their positions in the log."""


def slice_log(
    log_reader: LogReader,
    family: Family,
    measures: Sequence[Measure],
    positions: tuple[int, int],
    width: int,
    keep: Keep | None = None,
) -> Iterator[SlicedFamily]:
    """Slice the rows of a range of positions that belong to the family and that `keep` accepts, some at a time."""
    first, end = positions
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
                chosen = chosen[keep(times[chosen], chosen + start)]
            yield slice_family(family, measures, Batch(start, times, vids, columns, versions), chosen, width)


def are_inside(times: Ints, periods: Sequence[tuple[int, int]], low: int, high: int) -> np.ndarray:
    """Which times lie in one of the (half-open) periods and in [low, high]."""
    begins, ends = np.array([p[0] for p in periods]), np.array([p[1] for p in periods])
    at = np.searchsorted(begins, times, side="right") - 1
    found: np.ndarray = (at >= 0) & (times < ends[np.maximum(at, 0)]) & (times >= low) & (times <= high)
    return found


def inside(periods: Sequence[tuple[int, int]], low: int, high: int) -> Keep:
    """Which rows have a time in one of the (half-open) periods and in [low, high]."""

    def keep(times: Ints, _positions: Ints) -> np.ndarray:
        return are_inside(times, periods, low, high)

    return keep


def among(positions: Ints) -> Keep:
    """Which rows stand at one of these positions."""

    def keep(_times: Ints, own: Ints) -> np.ndarray:
        return np.isin(own, positions)

    return keep
