"""GROUP BY LANDMARK (condition): windows that begin at each reading with a condition, and end where the next one begins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.cancellation import check
from penstock.errors import error, expect
from penstock.expr.expression import Column
from penstock.expr.windows import FOREVER, Bound, TimeWindow
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.final_panes import landmarks_ending
from penstock.operators.aggregate.rows import projected
from penstock.operators.base.log_reader import LogReader
from penstock.sql.plan import WINDOW_END, WINDOW_START, AggregatePlan, Output, aggregate_name, key_name
from penstock.sql.plan.output import schema_of
from penstock.types import TIMESTAMP

MOST_LANDMARKS = 1000


@dataclass(slots=True, eq=False)
class LandmarksAt(AggregateAt):
    """The answer at a cycle: one answer per window, put together. The times at which windows begin are the value of a subquery.

    Readings before the first landmark inside of BEGIN .. END are in no window. The newest window has no end yet.
    """

    part: ClassVar[type[AggregateAt]] = AggregateAt  # how each of the windows is answered
    ended_us: int = field(default=-FOREVER, kw_only=True)  # windows that ended before are left out

    @property
    def stretch(self) -> int | None:
        """A window comes with any reading."""
        return None

    def _panes_ending(self, after: int | None, starts_from: int) -> pa.Table:
        until, span = self.final_to_us, self.instant.range()
        if until is None or span is None:
            return schema_of(self.plan.outputs).empty_table()
        window = expect(TimeWindow, self.instant.window)
        found = landmarks_ending(self.plan, window, after, until, max(starts_from, self.kept_from_us))
        times = found.low if window.slides else max(found.low, span[0]), found.high
        landmarks = tuple(scalar.between(times, span, until) for scalar in self.scalars)
        ended = after if after is not None else -FOREVER
        return replace(self, scalars=landmarks, ended_us=ended)._part(found.plan, times, span, until)

    def _compute(self, log_reader: LogReader) -> pa.Table:
        span, now_us = self.instant.range(), self.instant.now_us
        starts = self._starts()
        starts = starts[sum(end < self.ended_us for end in starts[1:]) :]
        if len(starts) > MOST_LANDMARKS:
            detail = f"LANDMARK makes {len(starts)} windows in this answer, more than {MOST_LANDMARKS}"
            raise error("over_budget", detail=detail, hint="make BEGIN .. END shorter, or the condition rarer")
        until = min(span[1], now_us) if span is not None and now_us is not None else 0
        parts = []
        for start, end in pairwise([*starts, until + 1]):
            check()
            parts.append(self._over(start, end - 1, log_reader))
        counts = [part.num_rows for part in parts]
        whole = pa.concat_tables(parts) if parts else _schema(self.plan).empty_table()
        columns = {name: whole.column(name).combine_chunks() for name in whole.column_names}
        columns[WINDOW_START] = _times(np.repeat(np.array(starts, np.int64), counts))
        ends = [*starts[1:], 0][: len(starts)]
        is_newest = np.repeat(np.arange(len(starts)) == len(starts) - 1, counts)
        columns[WINDOW_END] = _times(np.repeat(np.array(ends, np.int64), counts), is_newest)
        return projected(self.plan, columns, sum(counts))

    def _starts(self) -> list[int]:
        """The landmarks inside the window, ascending."""
        (times,) = self.scalars[0].answer().column("times").to_pylist() or [None]
        found = pa.array(times or [], TIMESTAMP.to_arrow()).cast(pa.int64()).to_pylist()
        return sorted(found)

    def _over(self, low: int, high: int, log_reader: LogReader) -> pa.Table:
        window = TimeWindow(Bound("constant", low), Bound("constant", high))
        held = self.part(
            self.cycle,
            self.query_id,
            self.name,
            _part(self.plan),
            replace(self.instant, window=window),
            self.reach,
            self.locked,
            self.reader,
            self.fresh,
        )
        return held._compute(log_reader)


def _part(plan: AggregatePlan) -> AggregatePlan:
    """The keys and aggregates of one window. What picks rows by an inner aggregate does so inside of it."""
    outer = plan.keys if plan.picking is None else plan.keys[: plan.picking.outer]
    outputs = [Output(key_name(i), key.type, Column(key_name(i), key.type)) for i, key in enumerate(outer)]
    outputs += [
        Output(aggregate_name(i), call.type, Column(aggregate_name(i), call.type))
        for i, call in enumerate(plan.aggregates)
    ]
    nothing: dict[str, Any] = {"having": None, "over": (), "qualify": None, "sorted": None, "scalars": ()}
    return replace(plan, outputs=tuple(outputs), landmarks=False, **nothing)


def _schema(plan: AggregatePlan) -> pa.Schema:
    return pa.schema([(output.name, output.type.to_arrow()) for output in _part(plan).outputs])


def _times(micros: np.ndarray, missing: Any = None) -> pa.Array:
    return pa.array(micros, pa.int64(), mask=missing).cast(TIMESTAMP.to_arrow())
