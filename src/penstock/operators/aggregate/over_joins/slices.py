"""Slice results of a join into cells: by the time when they leave a window, by the pane of their latest time, and by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.operators.aggregate.partials.cells import Cells
from penstock.operators.aggregate.partials.composite import CompositePartial, Marks
from penstock.operators.aggregate.partials.slices import number_groups, slice_rows
from penstock.operators.aggregate.shape import SECOND_US, measures_of
from penstock.operators.join.projection import ResultProjection, RowsMissing, projection_in_worker
from penstock.operators.join.result_list import ChosenResults
from penstock.operators.join.steps.results import LATEST as RESULT_LATEST
from penstock.sql.plan import AggregatePlan, JoinPlan

SLICE_US = SECOND_US


@dataclass(frozen=True, slots=True)
class ResultRows:
    """Some results by number: the log positions of their tuples, and the columns that are needed."""

    numbers: Ints
    times: Ints  # by which they leave a window
    latest: Ints  # by which they enter it
    positions: Sequence[Ints]
    table: pa.Table


@dataclass(frozen=True, slots=True)
class SlicedResults:
    """Cells, and the keys of the groups that they number.

    A cell's `start` is the slice of the time at which results leave a window. All slices have the same width, so `width` holds
    the pane of the latest time instead, 0 without panes: one store finds its cells by (start, width, group).
    """

    keys: list[pa.Array]
    cells: Cells


@dataclass(frozen=True, slots=True)
class SliceTask:
    """Reads and slices some results in a worker, with the definitions as of a journal position or later ones."""

    folder: str
    journal: int
    join: JoinPlan
    top: AggregatePlan
    picked: ChosenResults
    by: str  # the time by which they leave a window

    def __call__(self) -> list[SlicedResults] | None:
        """None: the log lacks some of their rows."""
        try:
            return slice_chosen(
                projection_in_worker(self.folder, self.journal, self.join), self.top, self.picked, self.by
            )
        except RowsMissing:
            return None


def slice_chosen(
    projection: ResultProjection, top: AggregatePlan, picked: ChosenResults, by: str
) -> list[SlicedResults]:
    """Read results and slice those that the aggregation counts: in one piece, or in none."""
    table = projection.results(picked)
    if top.stream_predicate is not None:
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        asked = evaluate_mask(top.stream_predicate, columns, len(picked.numbers))
        picked, table = picked.keep(asked), table.filter(pa.array(asked))
    if not len(picked.numbers):
        return []
    inputs = len(projection.inputs)
    times, latest = picked.column(by), picked.column(RESULT_LATEST)
    rows = ResultRows(picked.numbers, times, latest, picked.positions(inputs), table)
    return [slice_results(top, partial_of(top, inputs), rows)]


def partial_of(top: AggregatePlan, inputs: int) -> CompositePartial:
    """All measures of a plan, and last what decides whether a cell counts."""
    return CompositePartial([*(measure.make() for measure in measures_of(top)), Marks(inputs)])


def slice_results(top: AggregatePlan, together: CompositePartial, rows: ResultRows) -> SlicedResults:
    columns = {name: rows.table.column(name).combine_chunks() for name in rows.table.column_names}
    count = len(rows.numbers)
    groups, keys = number_groups([evaluate(key, columns, count) for key in top.keys], count)
    panes = pane_starts(rows.latest, top.panes)
    distinct, place = np.unique(panes, return_inverse=True)
    # Group and pane as one number for as long as it takes: cells are cut by it.
    used, both = np.unique(groups * max(1, len(distinct)) + place, return_inverse=True)
    sliced = slice_rows(rows.times, rows.numbers, both, SLICE_US)
    *partials, marks = together.parts
    # FIRST and LAST go by a result's own time and then by its reading; they are asked only where each has one result.
    in_order = replace(sliced, times=rows.latest, positions=rows.positions[0])
    found = [
        in_order.aggregate(partial, [evaluate(a, columns, count) for a in measure.arguments])
        for measure, partial in zip(measures_of(top), partials, strict=True)
    ]
    found.append(sliced.aggregate(marks, [pa.array(rows.latest), *map(pa.array, rows.positions)]))
    one, codes = found[0], used[found[0].groups]
    cells = Cells(
        one.starts,
        distinct[codes % max(1, len(distinct))],
        codes // max(1, len(distinct)),
        one.firsts,
        one.lasts,
        one.rows,
        together.joined([cells.state for cells in found]),
    )
    return SlicedResults(keys, cells)


def pane_starts(times: Ints, panes: Panes | None) -> Ints:
    """Where the stretch begins of which panes consist and in which a time lies."""
    if panes is None:
        return np.zeros(len(times), np.int64)
    starts: Ints = np.floor_divide(times, panes.pane) * panes.pane
    return starts
