"""The answer of an aggregation over the newest rows of a stream: they are found and aggregated on request."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.catalog.rows import StaticRows
from penstock.expr.windows import RowsWindow
from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.correlated import with_inner
from penstock.operators.aggregate.family import number_groups
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.history import AtPositions, SliceRequest, slice_log
from penstock.operators.aggregate.partials.cell_sums import combine, merge_combined
from penstock.operators.aggregate.partials.cells import no_cells
from penstock.operators.aggregate.rows import answer_table
from penstock.operators.aggregate.shape import SECOND_US, family_of, measures_of
from penstock.operators.base.log_reader import LogReader
from penstock.operators.select.window_cut import WindowMatches, newest_counted

# Rows that are further apart in the log are read one by one.
_NEAR = 1 << 16


@dataclass(slots=True, eq=False)
class NewestRowsAt(AggregateAt):
    """The answer at a cycle. `counted` gives the rows that the window counts: of passing sensors, before stream predicates."""

    counted: WindowMatches = field(kw_only=True)
    static: StaticRows = field(kw_only=True)

    def _compute(self, log_reader: LogReader) -> pa.Table:
        window = self.instant.window
        assert isinstance(window, RowsWindow)
        positions = newest_counted(self.counted, self.instant, window, log_reader, self.static).positions
        panes, groups, measures = self.plan.panes, Groups(), measures_of(self.plan)
        width = math.gcd(panes.width, panes.step) if panes is not None else SECOND_US
        parts = {m: [combine(no_cells(m.make()), m.make(), panes)] for m in measures}
        request = SliceRequest(family_of(self.plan), measures, width, AtPositions(positions))
        for sliced in slice_log(log_reader, request, _pieces(np.sort(positions))):
            numbers = number_groups(groups, sliced)
            for measure, cells in zip(measures, sliced.cells, strict=True):
                own = replace(cells, groups=numbers[cells.groups])
                parts[measure].append(combine(own, measure.make(), panes))
        whole = with_inner(self.plan, {m: merge_combined(p, m.make()) for m, p in parts.items()}, groups)
        return answer_table(self.plan, whole, groups, self.now_us or 0)


def _pieces(positions: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of the log that hold these positions (ascending), without long stretches that hold none."""
    if not len(positions):
        return []
    cuts = np.flatnonzero(np.diff(positions) > _NEAR) + 1
    return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(positions, cuts)]
