"""The base of answers that are one whole table, such as aggregations: changes are found by comparing two cycles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.rollups.notices import RolledUpNote
from penstock.operators.base.answer import AnswerAt, Ids, check_rows
from penstock.operators.base.row_difference import row_difference
from penstock.operators.select.delivered_windows import DeliveredWindows

_NONE: Ids = np.empty(0, np.int64)


class CellsOfLog(Protocol):
    """Cells of rows of the log: made before an answer needs them."""

    def fill(self, most: int) -> bool: ...

    def refine_ahead(self) -> None: ...


class TableAnswer(ABC):
    """An answer that is one table. Ids are places in that table."""

    __slots__ = ()

    operator: ClassVar[str]
    net_changes: ClassVar[bool] = True
    finishes_later: ClassVar[bool] = False
    cycle: int
    note: RolledUpNote | None = None

    @property
    def stands_for(self) -> int:
        return self.cycle

    @property
    def stretch(self) -> int | None:
        return None

    @property
    def cells_of_log(self) -> tuple[CellsOfLog, ...]:
        """What the history filler looks after: aggregates of rows of the log, those of subqueries too."""
        return ()

    @abstractmethod
    def answer(self) -> pa.Table: ...

    def inside(self) -> Ids:
        return np.arange(self.answer().num_rows)

    def rows(self, ids: Ids) -> pa.Table:
        return self.answer().take(pa.array(ids))

    def entered(self, before: AnswerAt) -> Ids:
        """Groups with a new value."""
        return _difference(self.answer(), _table(before))[0]

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        was = _table(before)
        entered, left = _difference(self.answer(), was)
        return self.inside(), entered, was.take(pa.array(left))

    def select(self, limit: int | None, most: int) -> pa.Table:
        return self.rows(check_rows(self.inside(), limit, most))

    def begin(self, delivered: DeliveredWindows) -> None:
        """Computed now: when the next cycle is compared with it, retention may have taken what it stands on."""
        self.answer()

    def first(self, delivered: DeliveredWindows) -> Ids:
        return self.inside()

    def undelivered(self, before: AnswerAt, delivered: DeliveredWindows) -> Ids:
        return self.entered(before)

    # -- rows that become final: what an answer says that does not know when

    @property
    def final_to_us(self) -> int | None:
        return None

    def final_rows(self) -> pa.Table:
        return self.answer()

    def rows_made_final(self, before: AnswerAt) -> pa.Table:
        return self.rows(self.entered(before))


def _difference(answer: pa.Table, was: pa.Table) -> tuple[Ids, Ids]:
    """What came and what went; of an answer that stayed as it was, nothing is compared."""
    return (_NONE, _NONE) if answer is was else row_difference(answer, was)


def _table(held: AnswerAt) -> pa.Table:
    assert isinstance(held, TableAnswer)
    return held.answer()
