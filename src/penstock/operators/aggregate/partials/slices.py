"""Slice rows into cells: cut time into slices of equal width, aligned to the epoch, and aggregate by slice and group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.base import Accumulator, Ints, Values
from penstock.operators.aggregate.partials.cells import Cells


@dataclass(frozen=True, slots=True)
class SlicedRows:
    """Rows and the cells they fall into."""

    cells: Ints  # per row
    times: Ints
    positions: Ints
    starts: Ints  # from here on per cell
    groups: Ints
    firsts: Ints
    lasts: Ints
    rows: Ints
    width: int

    def aggregate(self, partial: Accumulator, arguments: Sequence[pa.Array]) -> Cells:
        """One argument's partials over these rows."""
        state = partial.empty(len(self.starts))
        partial.add(state, self._values(arguments, partial))
        widths = np.full(len(self.starts), self.width, np.int64)
        return Cells(self.starts, widths, self.groups, self.firsts, self.lasts, self.rows, state)

    def _values(self, arguments: Sequence[pa.Array], partial: Accumulator) -> Values:
        valid = np.ones(len(self.cells), np.bool_)
        for argument in arguments:
            if argument.null_count:
                valid &= argument.is_valid().to_numpy(zero_copy_only=False)
        numbers = tuple(partial.convert(argument) for argument in arguments)
        if partial.keeps_nulls or valid.all():
            return Values(self.cells, numbers, self.times, self.positions, valid)
        chosen = tuple(n[valid] for n in numbers)
        return Values(self.cells[valid], chosen, self.times[valid], self.positions[valid], valid[valid])


def slice_rows(times: Ints, positions: Ints, groups: Ints, width: int) -> SlicedRows:
    """Cut rows by time and group. Positions ascend."""
    slices = np.floor_divide(times, width)
    lowest, count = int(slices.min(initial=0)), int(groups.max(initial=-1)) + 1
    if len(slices):
        lowest = int(slices.min())
    span = int(slices.max(initial=lowest)) - lowest + 1
    if span * count <= 4 * len(times) + 1024:
        flat = (slices - lowest) * count + groups
        used = np.flatnonzero(np.bincount(flat, minlength=span * count)) if len(flat) else flat
        places = np.zeros(span * count, np.int64)
        places[used] = np.arange(len(used))
        cells = places[flat]
    else:
        distinct, ranks = np.unique(slices, return_inverse=True)
        ranked, cells = np.unique(ranks * count + groups, return_inverse=True)
        used = (distinct[ranked // count] - lowest) * count + ranked % count
    firsts, lasts = np.empty(len(used), np.int64), np.empty(len(used), np.int64)
    firsts[cells[::-1]] = positions[::-1]  # the last to be written stays
    lasts[cells] = positions
    rows = np.bincount(cells, minlength=len(used)) if len(used) else np.empty(0, np.int64)
    starts = (used // max(count, 1) + lowest) * width
    return SlicedRows(cells, times, positions, starts, used % max(count, 1), firsts, lasts, rows, width)


def number_groups(keys: Sequence[pa.Array], rows: int) -> tuple[Ints, list[pa.Array]]:
    """Each row's group, counted from 0, and the groups' keys. NULLs are equal, and so are NaNs and both zeros."""
    groups = Groups([key.type for key in keys])
    numbers = groups.number(keys, rows)
    return numbers, groups.columns(np.arange(len(groups)))
