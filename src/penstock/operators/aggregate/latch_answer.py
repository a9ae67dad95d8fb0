"""A LATCH query's answer as of a committed cycle: the sum of all pieces of the log below its head."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import PenstockError, error
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.family import number_groups
from penstock.operators.aggregate.history import SliceRequest, slice_log
from penstock.operators.aggregate.latch import LatchFamily
from penstock.operators.aggregate.partials.cell_sums import CombinedCells, combine, merge_combined
from penstock.operators.aggregate.rows import answer_table
from penstock.operators.aggregate.shape import SECOND_US, Measure, family_of, measures_of
from penstock.operators.base.log_reader import LogReader


@dataclass(slots=True, eq=False)
class LatchAt(AggregateAt):
    """The answer of a LATCH query at a cycle. It reads the log only if a piece continues past an older cycle's head."""

    def _compute(self, log_reader: LogReader) -> pa.Table:
        measures, head = measures_of(self.plan), self.instant.head
        self._mend(log_reader, measures)
        with self.locked() as store:
            family = self._family(store)
            assert isinstance(family, LatchFamily)
            groups = family.groups
            known = {m: family.sum_below(m, head) for m in measures}
        first = min(cut for _, cut in known.values())
        if first < self.instant.floor and first < head:
            oldest = "a later one, because readings from before it are gone, and what LATCH knows of them is merged"
            raise error("cycle_gone", cycle=self.cycle, oldest=oldest)
        parts: dict[Measure, list[CombinedCells]] = {m: [lines] for m, (lines, _) in known.items()}
        missed = [(first, head)] if first < head else []
        read = list(slice_log(log_reader, SliceRequest(family_of(self.plan), measures, SECOND_US), missed))
        with self.locked():
            for sliced in read:
                numbers = number_groups(groups, sliced)
                for measure, cells in zip(measures, sliced.cells, strict=True):
                    own = replace(cells, groups=numbers[cells.groups])
                    parts[measure].append(combine(own, measure.make(), None))
            whole = {m: merge_combined(p, m.make()) for m, p in parts.items()}
            return answer_table(self.plan, whole, groups, self.now_us or 0)

    def _mend(self, log_reader: LogReader, measures: tuple[Measure, ...]) -> None:
        """Read what a failed cycle did not tell, as long as the log has it."""
        with self.locked() as store:
            gaps = self._family(store).missing(measures, 0, self.instant.head)
        for (first, end), needed in gaps:
            if first < self.instant.floor:
                raise PenstockError(
                    "over_budget",
                    "LATCH has lost its state: it failed, and the readings are no longer kept",
                    hint="drop the query, create it anew",
                )
            self._slice(log_reader, needed, first, end)
