"""The base of answers that are one whole table, such as aggregations: changes are found by comparing two cycles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.aggregate.rollups.notices import RolledUpNote
from penstock.operators.base.answer import AnswerAt, Ids, check_rows
from penstock.operators.select.delivered_windows import DeliveredWindows

FEW_ROWS = 200


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
    def stretch(self) -> int | None:
        return None

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
    columns = [_one_column(*pair) for pair in zip(other.columns, rows.columns, strict=True)]
    count = other.num_rows + rows.num_rows
    numbers = _few_numbers(columns) if columns and count <= FEW_ROWS else number_groups(columns, count)[0]
    known, mine = np.bincount(numbers[: other.num_rows], minlength=len(numbers)), numbers[other.num_rows :]
    # The how-manieth of its equals each row is, counted from 0.
    order = np.argsort(mine, kind="stable")
    begins = np.flatnonzero(np.diff(mine[order], prepend=-1))
    place = np.empty(len(mine), np.int64)
    place[order] = np.arange(len(mine)) - np.repeat(begins, np.diff(np.append(begins, len(mine))))
    return np.flatnonzero(place >= known[mine])


def _few_numbers(columns: list[pa.Array]) -> Ids:
    """As `number_groups` does it, at less cost for each column and more for each row."""
    known: dict[tuple[Any, ...], int] = {}
    rows = zip(*map(_comparable, columns), strict=True)
    return np.array([known.setdefault(row, len(known)) for row in rows], np.int64)


def _comparable(column: pa.Array) -> list[Any]:
    if pa.types.is_floating(column.type):
        return ["NaN" if value != value else value for value in column.to_pylist()]
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()  # type: ignore[no-any-return]


def _one_column(*columns: pa.ChunkedArray) -> pa.Array:
    """Columns of one type one after the other, as values that can be numbered."""
    type_ = columns[-1].type
    whole = pa.chunked_array([c for column in columns for c in column.cast(type_).chunks], type_).combine_chunks()
    if pa.types.is_nested(whole.type):
        return pa.array([None if value is None else repr(value) for value in whole.to_pylist()], pa.string())
    return whole
