"""The base of answers that are one whole table, such as aggregations: changes are found by comparing two cycles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.rollups.notices import RolledUpNote
from penstock.operators.base.answer import AnswerAt, Ids, check_rows
from penstock.operators.select.delivered_windows import DeliveredWindows


class TableAnswer(ABC):
    """An answer that is one table. Ids are places in that table."""

    __slots__ = ()

    operator: ClassVar[str]
    cycle: int
    note: RolledUpNote | None = None

    @property
    def stands_for(self) -> int:
        return self.cycle

    @property
    def may_skip_cycles(self) -> bool:
        return False

    @abstractmethod
    def answer(self) -> pa.Table: ...

    def inside(self) -> Ids:
        return np.arange(self.answer().num_rows)

    def rows(self, ids: Ids) -> pa.Table:
        return self.answer().take(pa.array(ids))

    def entered(self, before: AnswerAt) -> Ids:
        """Groups with a new value."""
        return without(self.answer(), _table(before))

    def changed(self, before: AnswerAt, inside_before: Ids) -> tuple[Ids, Ids, pa.Table]:
        was = _table(before)
        left = was.take(pa.array(without(was, self.answer())))
        return self.inside(), self.entered(before), left

    def select(self, limit: int | None, most: int) -> pa.Table:
        return self.rows(check_rows(self.inside(), limit, most))

    def begin(self, delivered: DeliveredWindows) -> None:
        """Computed now: when the next cycle is compared with it, retention may have taken what it stands on."""
        self.answer()

    def undelivered(self, before: AnswerAt, delivered: DeliveredWindows) -> Ids:
        return self.entered(before)


def _table(held: AnswerAt) -> pa.Table:
    assert isinstance(held, TableAnswer)
    return held.answer()


def without(rows: pa.Table, other: pa.Table) -> Ids:
    """Which rows are not among the others, as often as they are there."""
    known = Counter(_tuples(other))
    found = []
    for at, row in enumerate(_tuples(rows)):
        if known[row] > 0:
            known[row] -= 1
        else:
            found.append(at)
    return np.array(found, np.int64)


def _tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Rows that can be compared: NaN equals NaN here."""
    columns = [[_comparable(v) for v in column.to_pylist()] for column in rows.columns]
    return list(zip(*columns, strict=True))


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return repr(value) if isinstance(value, list | dict) else value
