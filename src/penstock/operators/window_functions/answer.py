"""The answer of a question with window functions as of a committed cycle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import expect
from penstock.expr.evaluate import evaluate, evaluate_mask
from penstock.expr.expression import Column, columns_of
from penstock.expr.windows import FOREVER
from penstock.operators.base.answer import AnswerAt, Ids, rows_gone
from penstock.operators.base.finality import final_inside
from penstock.operators.base.log_reader import LogReader, read_log
from penstock.operators.base.row_order import sorted_rows
from penstock.operators.base.table_answer import CellsOfLog, TableAnswer
from penstock.operators.base.window_functions import window_columns
from penstock.operators.select.answer import SelectAt
from penstock.operators.window_functions.plan import WindowFunctionsPlan
from penstock.operators.window_functions.state import Columns, RowColumns, WindowFunctionsState
from penstock.sql.plan.output import schema_of
from penstock.sql.plan.window_calls import parts_of, window_name
from penstock.types import TIMESTAMP
from penstock.views.answer_store import AnswerStore

_FINAL_AT = "final_at"


@dataclass(slots=True, eq=False)
class WindowFunctionsAt(TableAnswer):
    """The answer at a cycle, found at the first request. `below`: the selection of its rows, or the first ones of each partition."""

    operator: ClassVar[str] = "window_functions"
    finishes_later: ClassVar[bool] = True
    cycle: int
    query_id: int
    plan: WindowFunctionsPlan
    below: AnswerAt
    reader: Callable[[], LogReader]
    fresh: Callable[[], LogReader]  # a reader with a new list of the log's files
    locked: Callable[[], AbstractContextManager[AnswerStore]]
    watermark_us: int | None = None
    _answer: pa.Table | None = field(default=None)
    # By row, the time of the last reading that it looks at; None where ORDER BY sorts the rows.
    _final_at_us: Ids | None = field(default=None)

    @property
    def now_us(self) -> int | None:
        return self.below.now_us

    @property
    def floors(self) -> tuple[int, ...]:
        return self.below.floors

    @property
    def cells_of_log(self) -> tuple[CellsOfLog, ...]:
        return self.below.cells_of_log if isinstance(self.below, TableAnswer) else ()

    def answer(self) -> pa.Table:
        if self._answer is None:
            self._answer = sorted_rows(self._found(), self.plan.sorted)
        return self._answer

    @property
    def final_to_us(self) -> int | None:
        """Where the plan says that rows become final: with nothing but LAG and LEAD, and a BEGIN that does not move."""
        instant = expect(SelectAt, self.below).instant
        span = instant.range()
        return final_inside(instant.window, self.watermark_us, span[1] if span is not None else None)

    def final_rows(self) -> pa.Table:
        return self._rows_before_final_to(-FOREVER)

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        was = expect(WindowFunctionsAt, before).final_to_us
        return self._rows_before_final_to(was if was is not None else -FOREVER)

    def _rows_before_final_to(self, low: int) -> pa.Table:
        answer, until = self.answer(), self.final_to_us
        assert self._final_at_us is not None
        inside = (self._final_at_us >= low) & (self._final_at_us < (until if until is not None else -FOREVER))
        return answer.filter(pa.array(inside))

    def _positions(self) -> Ids:
        """The rows, in log order."""
        inside = self.below.inside()
        if self.plan.top is None:
            return inside
        positions: Ids = np.sort(self.below.rows(inside).column(0).to_numpy())
        return positions

    def _columns(self, wanted: set[str], positions: Ids) -> dict[str, pa.Array]:
        """Most rows are those of the last answer; the others are read."""

        def read(new: Ids) -> Columns:
            return read_log(lambda reader: reader.columns(wanted, new), self.reader, self.fresh)

        with self.locked() as store:
            known = kept_rows(store).rows(self.query_id)
        found = dict(known.of(positions, read))
        if any(len(column) < len(positions) for column in found.values()):
            raise rows_gone(self)
        with self.locked() as store:
            asked = store.answers.get(self.query_id)
            if asked is not None and asked.whole is self.plan:
                kept_rows(store).keep(self.query_id, RowColumns(positions, found))
        return found

    def _found(self) -> pa.Table:
        plan, positions = self.plan, self._positions()
        outputs = (*plan.outputs, *(plan.sorted.hidden if plan.sorted is not None else ()))
        asked = [*parts_of(plan.over), *(output.expr for output in outputs)]
        asked += [plan.qualify] if plan.qualify is not None else []
        wanted = {TIME_COLUMN}.union(*map(columns_of, asked)) - _names(len(plan.over))
        columns = self._columns(wanted, positions)
        count = len(positions)
        # By time, then as they stand in the log; answers have them in the log's order.
        order = np.argsort(columns[TIME_COLUMN].cast(pa.int64()).to_numpy(), kind="stable")
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        by_time = {name: column.take(pa.array(order)) for name, column in columns.items()}
        values = {**window_columns(plan.over, by_time, count), _FINAL_AT: _final_at(plan, by_time, count)}
        columns = columns | {name: column.take(pa.array(back)) for name, column in values.items()}
        if plan.qualify is not None:
            kept = pa.array(np.flatnonzero(evaluate_mask(plan.qualify, columns, count)))
            columns, count = {name: column.take(kept) for name, column in columns.items()}, len(kept)
        self._final_at_us = columns[_FINAL_AT].cast(pa.int64()).to_numpy()
        arrays = [evaluate(output.expr, columns, count) for output in outputs]
        return pa.Table.from_arrays(arrays, schema=schema_of(outputs))


def _final_at(plan: WindowFunctionsPlan, columns: dict[str, pa.Array], count: int) -> pa.Array:
    """The time of the last reading that each row looks at: of itself, or of one that LEAD finds. It is far off where that has not come."""
    time = Column(TIME_COLUMN, TIMESTAMP)
    leads = {replace(c, type=TIMESTAMP, arguments=(time,)) for c in plan.over if c.function == "lead"}
    found = columns[TIME_COLUMN].cast(pa.int64()).to_numpy()
    for next_time in window_columns(list(leads), columns, count).values():
        found = np.maximum(found, next_time.cast(pa.int64()).fill_null(FOREVER).to_numpy())
    return pa.array(found, pa.int64())


def kept_rows(store: AnswerStore) -> WindowFunctionsState:
    return expect(WindowFunctionsState, store.states[WindowFunctionsAt.operator])


def _names(count: int) -> set[str]:
    return {window_name(place) for place in range(count)}
