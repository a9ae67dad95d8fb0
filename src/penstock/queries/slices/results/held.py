"""The answer of aggregates over a window join as of a committed cycle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.errors import error
from penstock.operators.slices.combining import Rest, merge_combined
from penstock.pipeline.joins.results import EARLIEST, LATEST
from penstock.pipeline.slices.shape import measures_of
from penstock.queries.answers import AnswerStore
from penstock.queries.join_held import JoinHeld
from penstock.queries.join_results import Picked
from penstock.queries.slices.answered import AnsweredHeld
from penstock.queries.slices.reading import READ_ROWS, inside
from penstock.queries.slices.results.family import ResultsFamily, ResultsLook
from penstock.queries.slices.results.slicing import Rows, SlicedResults, slice_results
from penstock.queries.slices.rows import answer_table
from penstock.sql.plan import AggregatePlan


@dataclass(slots=True, eq=False)
class JoinAggregateHeld(AnsweredHeld):
    """Computed when first asked for. Results are told by number, so cells are facts whenever one looks."""

    join: JoinHeld
    name: str
    top: AggregatePlan
    locked: Callable[[], AbstractContextManager[AnswerStore]]
    _answer: pa.Table | None = field(default=None)

    @property
    def cycle(self) -> int:
        return self.join.cycle

    @property
    def query_id(self) -> int:
        return self.join.query_id

    @property
    def now_us(self) -> int | None:
        return self.join.now_us

    def answer(self) -> pa.Table:
        if self._answer is None:
            self._answer = self._compute()
        return self._answer

    def _compute(self) -> pa.Table:
        span, floors = self.join.span(), tuple(s.floor for s in self.join.inputs)
        low, high = span if span is not None else (0, -1)
        look = ResultsLook(low, high, self.join.count if span is not None else 0, floors)
        family = self._family()
        while True:
            self._take_in(family, look)
            with self.locked():
                if family.due(look, 1) is not None:
                    continue  # it was emptied meanwhile
                lines, rest = family.look(look)
            break
        read = self._read(family, look, rest)
        with self.locked():
            whole = merge_combined([lines, *map(family.combined, read)], family.partial)
            by_measure = {
                measure: replace(whole, state=family.partial.part(whole.state, place))
                for place, measure in enumerate(measures_of(self.top))
            }
            return answer_table(self.top, by_measure, family.groups)

    def _family(self) -> ResultsFamily:
        with self.locked() as store:
            if self.query_id not in store.answers:
                raise error("query_not_found", query=self.name, hint="it was dropped")
            generation = self.join.results.generation
            return store.slices.of_results(self.query_id, generation, self.top, len(self.join.inputs))

    def _take_in(self, family: ResultsFamily, look: ResultsLook) -> None:
        """Make cells of what nobody has made cells of, some results at a time."""
        with family.slicing:
            while True:
                with self.locked():
                    due = family.due(look, READ_ROWS)
                if due is None:
                    return
                picked = self.join.results.pick(due)
                ends = picked.column(LATEST)
                reached = ends <= look.high
                sliced = self._slice(family, picked.keep(reached))
                with self.locked():
                    family.take(due, sliced, picked.numbers[~reached], ends[~reached])

    def _read(self, family: ResultsFamily, look: ResultsLook, rest: Rest) -> list[SlicedResults]:
        """Results that no cell tells apart from others which do not count."""
        found = []
        keep = inside(rest.periods, look.low, look.high)
        for first, end in rest.positions:
            for low in range(first, end, READ_ROWS):
                picked = self.join.results.inside(low, min(end, low + READ_ROWS), look.low, look.high)
                sliced = self._slice(family, picked.keep(keep(picked.column(EARLIEST))))
                if sliced is not None:
                    found.append(sliced)
        return found

    def _slice(self, family: ResultsFamily, picked: Picked) -> SlicedResults | None:
        """Cells of results, without those of which retention has taken a tuple."""
        join = self.join
        positions = picked.positions(len(join.inputs))
        kept = np.logical_and.reduce([p >= s.floor for p, s in zip(positions, join.inputs, strict=True)])
        picked = picked.keep(kept)
        if not len(picked.numbers):
            return None
        rows = Rows(
            picked.numbers,
            picked.column(EARLIEST),
            picked.column(LATEST),
            picked.positions(len(join.inputs)),
            join.project(picked),
        )
        return slice_results(self.top, family.partial, rows)
