"""The answer of aggregates with windows of their own over one stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from penstock.expr.windows import Bound, TimeWindow
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.per_window import answer_by_window
from penstock.operators.aggregate.rollups.notices import together
from penstock.operators.base.log_reader import LogReader
from penstock.sql.plan import AggregatePlan


@dataclass(slots=True, eq=False)
class OwnWindowsAt(AggregateAt):
    """The answer at a cycle: one answer per window, joined by key."""

    part: ClassVar[type[AggregateAt]] = AggregateAt  # how each of the windows is answered

    def _compute(self, log_reader: LogReader) -> pa.Table:
        return answer_by_window(self.plan, lambda us, part: self._over(us, part, log_reader))

    def _over(self, us: int | None, part: AggregatePlan, log_reader: LogReader) -> pa.Table:
        instant, span = self.instant, self.instant.range()
        if us is not None and span is not None and instant.now_us is not None:
            high = min(span[1], instant.now_us)
            window = TimeWindow(Bound("constant", max(span[0], high - us)), Bound("constant", high))
            instant = replace(instant, window=window)
        held = self.part(
            self.cycle, self.query_id, self.name, part, instant, self.reach, self.locked, self.reader, self.fresh
        )
        held.rollup = self.rollup
        found = held._compute(log_reader)
        self.note = together([note for note in (self.note, held.note) if note is not None])
        return found
