"""UNION ALL as of a past time: the answers of its branches, where each of them has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.operators.base.once import Once, PastAnswer, PastQuestion, once_of
from penstock.sql.plan import Plan

if TYPE_CHECKING:
    from penstock.views.standing_queries import StandingQueries


@dataclass(frozen=True, slots=True)
class PastUnion:
    """The rows of the first branch come first."""

    note: ClassVar[None] = None

    branches: Sequence[PastAnswer]

    def select(self, limit: int | None, most: int) -> pa.Table:
        return pa.concat_tables([branch.select(limit, most) for branch in self.branches])


class UnionOnce(Once):
    """Answers a union as of a past time where each branch can."""

    def covers_past(self, plan: Plan) -> bool:
        return all(once_of(branch).covers_past(branch) for branch in plan.branches)

    def hold_past(self, standing: StandingQueries, asked: PastQuestion) -> PastAnswer:
        branches = [replace(asked, plan=branch) for branch in asked.plan.branches]
        return PastUnion([once_of(each.plan).hold_past(standing, each) for each in branches])


ONCE = UnionOnce()
