"""The answer of aggregates over a window join as of a committed cycle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.errors import error, expect
from penstock.expr.windows import FOREVER, TimeWindow
from penstock.operators.aggregate.final_panes import panes_ending, range_of_panes, with_panes
from penstock.operators.aggregate.history import READ_ROWS, are_inside
from penstock.operators.aggregate.over_joins.family import ResultRange, ResultsFamily
from penstock.operators.aggregate.over_joins.slices import SlicedResults, SliceTask, slice_chosen
from penstock.operators.aggregate.partials.cell_sums import UncoveredRows, merge_combined
from penstock.operators.aggregate.per_window import answer_by_window
from penstock.operators.aggregate.rows import answer_table, with_values
from penstock.operators.aggregate.shape import measures_of
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.finality import final_inside
from penstock.operators.base.row_order import sorted_rows
from penstock.operators.base.table_answer import CellsOfLog, TableAnswer
from penstock.operators.join.answer import JoinAt
from penstock.operators.join.result_list import ChosenResults
from penstock.operators.join.steps.results import EARLIEST, LATEST
from penstock.sql.plan import AggregatePlan
from penstock.sql.plan.output import schema_of
from penstock.views.answer_store import AnswerStore

TASKS_AT_ONCE = 8  # of READ_ROWS results each


@dataclass(slots=True, eq=False)
class JoinAggregateAt(TableAnswer):
    """Computed on the first request. Results have permanent numbers, so a cell never becomes wrong.

    Over the query's own join all tuples of a result have to lie in `span`. A reader of another query's results (`reads`) sees
    their own time alone, the latest, and of the older ones those that the query can ever have shown.
    """

    operator: ClassVar[str] = "join_aggregate"
    finishes_later: ClassVar[bool] = True
    cycle: int
    query_id: int
    name: str
    now_us: int | None
    join: JoinAt
    top: AggregatePlan
    span: tuple[int, int] | None
    locked: Callable[[], AbstractContextManager[AnswerStore]]
    reads: bool = False
    scalars: tuple[TableAnswer, ...] = ()  # of subqueries over a stream of the join
    reach_us: int | None = None  # how much older than a result its oldest tuple may be
    _answer: pa.Table | None = field(default=None)

    @property
    def final_to_us(self) -> int | None:
        marks = [mark for mark in self.join.watermarks if mark is not None]
        watermark_us = min(marks) if len(marks) == len(self.join.inputs) else None
        return final_inside(
            self.join.windows.by_input[0], watermark_us, self.span[1] if self.span is not None else None
        )

    def final_rows(self) -> pa.Table:
        return self._panes_ending(None, self._slides_from())

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        was = expect(JoinAggregateAt, before)
        return self._panes_ending(was.final_to_us, was._slides_from())

    def _slides_from(self) -> int:
        """Before which time the window has cut panes. Results that have left it are not kept."""
        return self.span[0] if self.span is not None and self._window.slides else -FOREVER

    @property
    def _window(self) -> TimeWindow:
        return self.join.windows.by_input[0]

    def _panes_ending(self, after: int | None, starts_from: int) -> pa.Table:
        """The rows of final panes with tuples of a time or later alone, without those that ended up to `after`."""
        until, panes, reach_us = self.final_to_us, self.top.panes, self.reach_us
        found = None
        if until is not None and panes is not None and reach_us is not None and self.span is not None:
            found = panes_ending(panes, after, until, max(starts_from, self.join.kept_from_us) + reach_us)
        if found is None or self.span is None or reach_us is None:
            return schema_of(self.top.outputs).empty_table()
        low, high = range_of_panes(self._window, self.span, replace(found, first=found.first - reach_us))
        part = replace(self, span=(low, high), now_us=max(self.now_us or 0, found.last), _answer=None)
        return sorted_rows(part._over(None, with_panes(self.top, found)), self.top.sorted)

    @property
    def floors(self) -> tuple[int, ...]:
        return tuple(source.floor for source in self.join.inputs)

    @property
    def cells_of_log(self) -> tuple[CellsOfLog, ...]:
        return tuple(each for scalar in self.scalars for each in scalar.cells_of_log)

    def answer(self) -> pa.Table:
        if self._answer is None:
            self._answer = self._compute()
        return self._answer

    def _compute(self) -> pa.Table:
        top = with_values(self.top, self.scalars)
        found = answer_by_window(top, self._over) if top.own_windows else self._over(None, top)
        return sorted_rows(found, top.sorted)

    def _over(self, us: int | None, part: AggregatePlan) -> pa.Table:
        """All or some of the aggregates, over the window or over its last `us` microseconds."""
        low, high = self.span if self.span is not None else (0, -1)
        if us is not None and self.now_us is not None:
            low = max(low, min(high, self.now_us) - us)
        look = ResultRange(low, high, self.join.count if self.span is not None else 0, self.floors)
        family = self._family()
        while True:
            self._take_in(family, look)
            with self.locked():
                if family.due(look, 1) is not None:
                    continue  # it was emptied meanwhile
                lines, rest = family.look(look)
                groups = family.groups  # trimming and emptying replace this object, they do not change it
            break
        read = self._read(look, rest)
        with self.locked():
            parts = [lines, *(family.combined(sliced, groups) for sliced in read)]
        whole = merge_combined(parts, family.partial)
        by_measure = {
            measure: replace(whole, state=family.partial.part(whole.state, place))
            for place, measure in enumerate(measures_of(self.top))
        }
        return answer_table(part, by_measure, groups)

    def _family(self) -> ResultsFamily:
        with self.locked() as store:
            if not store.knows(self.query_id):
                raise error("query_not_found", query=self.name, hint="it was dropped")
            # What a reader sees of a generation depends on the window that the query had.
            generation = (self.join.results.generation, *(self.join.begins() if self.reads else ()))
            return store.slices.of_results(self.query_id, generation, self.top, len(self.join.inputs))

    def _take_in(self, family: ResultsFamily, look: ResultRange) -> None:
        """Make cells of the results that are in no cell yet, some at a time."""
        with family.slicing:
            while True:
                with self.locked() as store:
                    due = family.due(look, self._most_at_once())
                    if due is not None:
                        store.check_room(self.query_id)
                if due is None:
                    return
                picked = self.join.results.pick(due.numbers)
                ends = picked.column(LATEST)
                reached = ends <= look.high
                sliced = self._slice(picked.keep(reached))
                with self.locked():
                    family.take(due, sliced, picked.numbers[~reached], ends[~reached])

    def _read(self, look: ResultRange, rest: UncoveredRows) -> list[SlicedResults]:
        """Slice single results from cells that also hold results which do not count."""
        found = []
        for first, end in rest.positions:
            most = self._most_at_once()
            for low in range(first, end, most):
                high = min(end, low + most)
                if self.reads:
                    picked = self.join.results.inside(low, high, -FOREVER, look.high, look.low - 1)
                else:
                    picked = self.join.results.inside(low, high, look.low, look.high)
                kept = are_inside(self._times(picked), rest.periods, look.low, look.high)
                found += self._slice(picked.keep(kept))
        return found

    def _most_at_once(self) -> int:
        """How many results are read at a time: more by workers, as the tasks of one job."""
        is_here = self.join.log.budget.affords(READ_ROWS * len(self.join.inputs))
        return READ_ROWS if is_here else TASKS_AT_ONCE * READ_ROWS

    def _times(self, picked: ChosenResults) -> np.ndarray:
        return picked.column(LATEST if self.reads else EARLIEST)

    def _slice(self, picked: ChosenResults) -> list[SlicedResults]:
        """Cells of results, without those that lost a tuple to retention and those outside the request: here, or by workers."""
        join, by = self.join, LATEST if self.reads else EARLIEST
        picked = picked.keep(join.are_kept(picked))
        if self.reads and len(picked.numbers):
            picked = picked.keep(join.ever_shown(picked))
        pieces, inputs = list(picked.pieces(READ_ROWS)), len(join.inputs)
        rows = sum(len(np.unique(at)) for piece in pieces for at in piece.positions(inputs))  # each is read once
        if join.log.budget.affords(rows):
            return [each for piece in pieces for each in slice_chosen(join.projection(), self.top, piece, by)]
        folder, journal = str(join.log.folder.parent), join.log.journal
        found = join.log.budget.run([SliceTask(folder, journal, join.plan, self.top, p, by) for p in pieces])
        if any(each is None for each in found):
            raise join.missing(dict(enumerate(picked.positions(inputs))))
        return [sliced for each in found for sliced in each]
