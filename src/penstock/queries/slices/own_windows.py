"""An answer whose aggregates have windows of their own: one answer per window, put together by key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.operators.expr import Column
from penstock.operators.windows import Bound, TimeWindow
from penstock.pipeline.slices.shape import measure_of
from penstock.queries.fetch import Fetcher
from penstock.queries.rollups.telling import together
from penstock.queries.slices.groups import Groups
from penstock.queries.slices.held import AggregateHeld
from penstock.queries.slices.rows import projected
from penstock.sql.plan import AggregatePlan, Output, aggregate_name, key_name


@dataclass(slots=True, eq=False)
class OwnWindowsHeld(AggregateHeld):
    """A group is there if the question's window has rows of it; an aggregate without rows says what it says of none."""

    part: ClassVar[type[AggregateHeld]] = AggregateHeld  # how each of the windows is answered

    def _compute(self, fetcher: Fetcher) -> pa.Table:
        plan = self.plan
        first = list(range(len(plan.aggregates)))[:1]
        groups, count = Groups(), 0
        columns: dict[str, pa.Array] = {}
        # The question's own window first: it says which groups there are.
        windows = [None, *sorted({us for us in plan.own_windows if us is not None})]
        for us in windows:
            places = [i for i, own in enumerate(plan.own_windows) if own == us]
            table = self._over(us, places or first, fetcher)
            names = [key_name(i) for i in range(len(plan.keys))]
            keys = list(zip(*(table.column(n).to_pylist() for n in names), strict=True)) if names else [()]
            numbers = groups.number(keys)
            if us is None:
                count = len(keys)
                columns = {n: table.column(n).combine_chunks() for n in names}
            for place in places:
                columns[aggregate_name(place)] = self._spread(table, place, numbers, count)
        return projected(plan, columns, count)

    def _over(self, us: int | None, places: list[int], fetcher: Fetcher) -> pa.Table:
        """Some of the aggregates over the last part of the window, beside their keys."""
        plan = self.plan
        outputs = [Output(key_name(i), k.type, Column(key_name(i), k.type)) for i, k in enumerate(plan.keys)]
        for at, place in enumerate(places):
            type_ = plan.aggregates[place].type
            outputs.append(Output(aggregate_name(place), type_, Column(aggregate_name(at), type_)))
        part = AggregatePlan(
            plan.table_id,
            plan.keys,
            tuple(plan.aggregates[i] for i in places),
            tuple(outputs),
            plan.window,
            plan.static_predicate,
            plan.stream_predicate,
        )
        instant, span = self.instant, self.instant.range()
        if us is not None and span is not None and instant.now_us is not None:
            high = min(span[1], instant.now_us)
            window = TimeWindow(Bound("constant", max(span[0], high - us)), Bound("constant", high))
            instant = replace(instant, window=window)
        held = self.part(
            self.cycle, self.query_id, self.name, part, instant, self.reach, self.locked, self.reader, self.fresh
        )
        held.rollup = self.rollup
        found = held._compute(fetcher)
        self.note = together([note for note in (self.note, held.note) if note is not None])
        return found

    def _spread(self, table: pa.Table, place: int, numbers: np.ndarray, count: int) -> pa.Array:
        """An aggregate per group of the question; where it has no rows, what it says of none."""
        call = self.plan.aggregates[place]
        partial = measure_of(call).make()
        nothing = partial.finish(call.function, partial.empty(1), call.type, call.parameter or 0)
        values = pa.concat_arrays([table.column(aggregate_name(place)).combine_chunks(), nothing])
        at = np.full(count, len(values) - 1, np.int64)
        at[numbers] = np.arange(len(numbers))
        return values.take(pa.array(at))
