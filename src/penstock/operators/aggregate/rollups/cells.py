"""Cells of a rollup: how they are added up, and how they become wider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.catalog.rollup_records import RollupDefinition
from penstock.errors import expect
from penstock.expr.expression import Column
from penstock.operators.aggregate.partials.base import Ints, Partial, State
from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.aggregate.shape import Family, Measure, family_of, measures_of
from penstock.operators.aggregate.slicer import SlicedFamily
from penstock.sql.plan import AggregatePlan, plan_from_json
from penstock.types import TIMESTAMP

# Always kept: a cell that lies on an edge of a window is not cut by it if its readings are not.
TIMES = Measure("extremes", (Column(TIME_COLUMN, TIMESTAMP),))
ROWS = Measure("count", ())


@dataclass(frozen=True, slots=True)
class Shape:
    """The rows and groups of a rollup, and its measures: TIMES, ROWS, then what was asked for."""

    family: Family
    measures: tuple[Measure, ...]

    def partials(self) -> list[Partial]:
        return [measure.make() for measure in self.measures]


@lru_cache(256)
def shape_of(rollup: RollupDefinition) -> Shape:
    plan = expect(AggregatePlan, plan_from_json(rollup.plan))
    return Shape(family_of(plan), tuple(dict.fromkeys((TIMES, ROWS, *measures_of(plan)))))


@dataclass(frozen=True, slots=True)
class RollupCells:
    """The readings of one group from a time on, for one width; a line per cell in every array."""

    keys: tuple[pa.Array, ...]
    starts: Ints
    states: tuple[State, ...]  # per measure of the rollup

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def earliest(self) -> Ints:
        """When the first reading of each cell was; TIMES is the first measure."""
        times: Ints = self.states[0]["least"]
        return times

    @property
    def latest(self) -> Ints:
        times: Ints = self.states[0]["greatest"]
        return times

    @property
    def readings(self) -> int:
        return int(self.states[0]["count"].sum())

    def take(self, chosen: np.ndarray) -> RollupCells:
        index = pa.array(np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen)
        states = tuple({name: field[chosen] for name, field in state.items()} for state in self.states)
        return RollupCells(tuple(key.take(index) for key in self.keys), self.starts[chosen], states)


def of_rows(sliced: SlicedFamily) -> RollupCells:
    """What was sliced of the log, with the keys beside each cell."""
    one = sliced.cells[0]
    index = pa.array(one.groups)
    return RollupCells(
        tuple(key.take(index) for key in sliced.keys), one.starts, tuple(cells.state for cells in sliced.cells)
    )


def added_up(parts: Sequence[RollupCells], width: int, partials: Sequence[Partial]) -> RollupCells:
    """One cell per group and time of a width, of cells that are as wide or narrower.

    Merging leaves no trace of what was merged first: an hour of minutes is to the bit an hour of readings.
    """
    keys = tuple(pa.concat_arrays([part.keys[i] for part in parts]) for i in range(len(parts[0].keys)))
    starts = np.floor_divide(np.concatenate([part.starts for part in parts]), width) * width
    groups, _ = number_groups(keys, len(starts))
    order = np.lexsort((groups, starts))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(starts[order]) != 0) | (np.diff(groups[order]) != 0)
    first, at = order[new], np.cumsum(new) - 1
    states = []
    for place, partial in enumerate(partials):
        total = partial.empty(len(first))
        fields = partial.fields()
        partial.merge(total, at, {n: np.concatenate([p.states[place][n] for p in parts])[order] for n in fields})
        states.append(total)
    index = pa.array(first)
    return RollupCells(tuple(key.take(index) for key in keys), starts[first], tuple(states))
