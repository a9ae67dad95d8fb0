"""The answer of UNION ALL as of a committed cycle: those of its branches, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.errors import expect
from penstock.operators.base.answer import AnswerAt, Ids, check_rows
from penstock.operators.select.delivered_windows import DeliveredWindows

# Ids of a branch are less than half of it away from its place: they are positions in logs or numbers of results, also negative ones.
_SPAN = 1 << 56


@dataclass(frozen=True, slots=True)
class UnionAt:
    """An id is one of a branch, moved by the place of the branch."""

    operator: ClassVar[str] = "union"
    finishes_later: ClassVar[bool] = True
    net_changes: ClassVar[bool] = False
    note: ClassVar[None] = None

    cycle: int
    query_id: int
    branches: tuple[AnswerAt, ...]

    @property
    def stands_for(self) -> int:
        return self.cycle

    @property
    def now_us(self) -> int | None:
        return self.branches[0].now_us

    @property
    def stretch(self) -> int | None:
        """No window of a branch has changed since the latest one did."""
        known = [branch.stretch for branch in self.branches]
        return None if None in known else max(since for since in known if since is not None)

    @property
    def floors(self) -> tuple[int, ...]:
        return tuple(floor for branch in self.branches for floor in branch.floors)

    def inside(self) -> Ids:
        return _joined([branch.inside() for branch in self.branches])

    def entered(self, before: AnswerAt) -> Ids:
        return _joined([branch.entered(was) for branch, was in self._since(before)])

    def begin(self, delivered: DeliveredWindows) -> None:
        for place, branch in enumerate(self.branches):
            branch.begin(delivered.of_branch(place))

    def first(self, delivered: DeliveredWindows) -> Ids:
        return _joined([branch.first(delivered.of_branch(place)) for place, branch in enumerate(self.branches)])

    def undelivered(self, before: AnswerAt, delivered: DeliveredWindows) -> Ids:
        since = enumerate(self._since(before))
        return _joined([branch.undelivered(was, delivered.of_branch(place)) for place, (branch, was) in since])

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        inside, entered, left = zip(
            *(
                branch.changed(was, ids)
                for (branch, was), ids in zip(self._since(before), self._of_branches(inside_before), strict=True)
            ),
            strict=True,
        )
        return _joined(inside), _joined(entered), pa.concat_tables(left)

    def rows(self, ids: Ids) -> pa.Table:
        parts = zip(self.branches, self._of_branches(ids), strict=True)
        return pa.concat_tables([branch.rows(own) for branch, own in parts])

    def select(self, limit: int | None, most: int) -> pa.Table:
        """The rows of the first branch come first, each branch in its own order."""
        found: list[pa.Table] = []
        for branch in self.branches:
            count = sum(table.num_rows for table in found)
            found.append(branch.select(None if limit is None else max(0, limit - count), most))
        rows = pa.concat_tables(found)
        check_rows(np.arange(rows.num_rows), limit, most)
        return rows

    # -- rows that become final later than they enter in some branch, and at once in others

    @property
    def final_to_us(self) -> int | None:
        """Rows of the other branches are final at once; NOW, which may step back, says nothing of them."""
        found = [branch.final_to_us for branch in self.branches if branch.finishes_later]
        return None if None in found else min((time_us for time_us in found if time_us is not None), default=None)

    def final_rows(self) -> pa.Table:
        return pa.concat_tables(branch.final_rows() for branch in self.branches)

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        return pa.concat_tables(branch.rows_made_final(was) for branch, was in self._since(before))

    def _since(self, before: AnswerAt) -> Iterator[tuple[AnswerAt, AnswerAt]]:
        return zip(self.branches, expect(UnionAt, before).branches, strict=True)

    def _of_branches(self, ids: Ids) -> list[Ids]:
        places = (ids + _SPAN // 2) // _SPAN
        return [ids[places == place] - place * _SPAN for place in range(len(self.branches))]


def _joined(ids: list[Ids] | tuple[Ids, ...]) -> Ids:
    found: Ids = np.concatenate([own + place * _SPAN for place, own in enumerate(ids)])
    return found
