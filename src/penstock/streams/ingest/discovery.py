"""Sensors without a row: their rows are made from their first readings, where the table allows it.

A table `WITH (discover = true)` takes the key of a reading that it does not know as a new sensor's. Static columns that
came with the reading are that sensor's; those of a sensor that is known are left as they are, because a user may have
corrected them. The rows are journalled before the readings are judged, so the readings find them like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.catalog.model import Table
from penstock.catalog.rows import StaticRows
from penstock.errors import PenstockError, error
from penstock.streams.ingest.readings import ReadingRefusal, Readings

InsertRows = Callable[[str, Sequence[Sequence[Any]]], int]


class Discovery:
    """Adds sensors through `insert` until a table has `most` of them: a mistake in a sender's key must not fill the disk."""

    def __init__(self, insert: InsertRows, most: int) -> None:
        self._insert = insert
        self._most = most

    def add_unknown(self, table: Table, readings: Readings, rows: Callable[[], StaticRows]) -> int:
        """How many sensors were added. Readings of a sensor that cannot be added are noted as bad, with the reason."""
        if not (table.options.discover and table.key and readings.count):
            return 0
        while True:
            known = rows()
            unknown = [i for i in np.flatnonzero(known.find(readings.keys) < 0).tolist() if i not in readings.bad]
            if not unknown:
                return 0
            new = self._new_rows(table, readings, unknown, self._most - len(known.live_sids()))
            try:
                return self._insert(table.name, new) if new else 0
            except PenstockError as problem:
                if problem.condition != "unique_violation":
                    raise
                # Another sender brought one of them first: look again.

    def _new_rows(self, table: Table, readings: Readings, unknown: list[int], room: int) -> list[list[Any]]:
        found: dict[tuple[Any, ...], list[Any]] = {}
        problems: dict[tuple[Any, ...], PenstockError] = {}
        for index in unknown:
            key = tuple([column[index].as_py() for column in readings.keys])
            if None in key or key in found:
                continue
            if key not in problems:
                row, problem = _row(table, readings, index, key)
                if problem is None and len(found) >= room:
                    problem = self._full(table)
                if problem is None:
                    found[key] = row
                    continue
                problems[key] = problem
            readings.bad[index] = ReadingRefusal(index, problems[key].condition, problems[key].message)
        return list(found.values())

    def _full(self, table: Table) -> PenstockError:
        detail = f'table "{table.name}" has {self._most} sensors; no more are discovered'
        return error("limit_reached", detail=f"{detail} (discover_max_sensors)")


def _row(table: Table, readings: Readings, index: int, key: tuple[Any, ...]) -> tuple[list[Any], PenstockError | None]:
    """Static values in the order of the columns, then the address."""
    assert table.stream is not None
    values = dict(zip(table.key, key, strict=True))
    values.update({name: column[index].as_py() for name, column in readings.described.items()})
    for column in table.columns:
        if column.required and values.get(column.name) is None:
            return [], error("not_null_violation", column=column.name, table=table.name)
    return [*(values.get(column.name) for column in table.columns), values.get(table.stream.name)], None
