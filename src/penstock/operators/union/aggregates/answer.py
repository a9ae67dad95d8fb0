"""The answer of aggregates over UNION ALL as of a committed cycle."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import pyarrow as pa

from penstock.operators.aggregate.answer import AggregateAt
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.cell_sums import CombinedCells, merge_combined
from penstock.operators.aggregate.rows import answer_table
from penstock.operators.aggregate.series import AnswerSpan
from penstock.operators.aggregate.shape import Measure, measure_of
from penstock.operators.base.row_order import sorted_rows
from penstock.operators.base.table_answer import CellsOfLog, TableAnswer
from penstock.sql.plan import AggregatePlan

Sums = tuple[dict[Measure, CombinedCells], Groups]


@dataclass(slots=True, eq=False)
class BranchSums(AggregateAt):
    """The sums of one branch by group, before anything is finished."""

    _sums: Sums | None = field(default=None, kw_only=True)

    @staticmethod
    def of(held: AggregateAt) -> BranchSums:
        known = {each.name: getattr(held, each.name) for each in fields(held)}
        return BranchSums(**known | {"rollup": None})

    def sums(self) -> Sums:
        self.answer()
        assert self._sums is not None
        return self._sums

    def _finished(self, whole: dict[Measure, CombinedCells], groups: Groups, span: AnswerSpan) -> pa.Table:
        self._sums = whole, groups
        return pa.table({})

    def answer(self) -> pa.Table:
        """Never shared with other readers: what counts are the sums."""
        if self._answer is None:
            self._answer = self._computed()
        return self._answer


@dataclass(slots=True, eq=False)
class UnionAggregateAt(TableAnswer):
    """The sums of all branches, merged by key. It is computed at the first request."""

    operator: ClassVar[str] = "union_aggregate"
    cycle: int
    query_id: int
    top: AggregatePlan
    branches: tuple[BranchSums, ...]
    _answer: pa.Table | None = field(default=None)

    @property
    def now_us(self) -> int | None:
        return self.branches[0].now_us

    @property
    def floors(self) -> tuple[int, ...]:
        return tuple(floor for branch in self.branches for floor in branch.floors)

    @property
    def cells_of_log(self) -> tuple[CellsOfLog, ...]:
        return tuple(each for branch in self.branches for each in branch.cells_of_log)

    def answer(self) -> pa.Table:
        if self._answer is None:
            self._answer = sorted_rows(self._merged(), self.top.sorted)
        return self._answer

    def _merged(self) -> pa.Table:
        groups = Groups.by(self.top.keys)
        parts: dict[Measure, list[CombinedCells]] = {measure_of(call): [] for call in self.top.aggregates}
        for branch in self.branches:
            whole, own = branch.sums()
            calls = zip(self.top.aggregates, branch.plan.aggregates, strict=True)
            for measure, mine in {measure_of(call): measure_of(same) for call, same in calls}.items():
                cells = whole[mine]
                numbers = groups.number(own.columns(cells.groups), len(cells.groups))
                parts[measure].append(replace(cells, groups=numbers))
        return answer_table(self.top, {m: merge_combined(found, m.make()) for m, found in parts.items()}, groups)
