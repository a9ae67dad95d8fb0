"""Calls of users' functions for some rows of a block: each row once per distinct call, with an error for each row that raises."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.expr.evaluate import Arguments, FunctionCalls, Run
from penstock.expr.expression import UserCall
from penstock.functions.values import Value, as_array

Ints = npt.NDArray[np.int64]
# A function that takes too long or too much memory fails as a whole.
_OF_A_ROW = "function_failed"


class RowCalls(FunctionCalls):
    """What users' functions gave for rows of one block. `rows` says which of them are being evaluated."""

    def __init__(self, block_rows: int) -> None:
        super().__init__()
        self.rows: Ints = np.empty(0, np.int64)
        self._block_rows = block_rows
        self._made: dict[UserCall, _Made] = {}

    def value(self, call: UserCall, rows: int, arguments: Arguments, run: Run) -> Value:
        made = self._made.get(call)
        if made is None:
            made = self._made[call] = _Made(self._block_rows, call.type.to_arrow())
        missing = np.flatnonzero(made.places[self.rows] < 0)
        if len(missing):
            arrays = arguments()
            if len(missing) < rows:
                index = pa.array(missing)
                arrays = [array.take(index) for array in arrays]
            made.add(self.rows[missing], arrays, run)
        return made.at(self.rows)

    def failures(self, calls: Iterable[UserCall]) -> dict[int, PenstockError]:
        """By row why some of these calls raised; of several errors always the same one."""
        found: dict[int, PenstockError] = {}
        for call in calls:
            for row, failure in self._made[call].failures.items() if call in self._made else ():
                if row not in found or failure.message < found[row].message:
                    found[row] = failure
        return found


class _Made:
    """What one call gave so far: `places` says where among its values a row has its own, -1 for none."""

    def __init__(self, block_rows: int, type_: pa.DataType) -> None:
        self._type = type_
        self.places: Ints = np.full(block_rows, -1, np.int64)
        self.failures: dict[int, PenstockError] = {}
        self._values: list[pa.Array] = []
        self._count = 0

    def add(self, rows: Ints, arrays: list[pa.Array], run: Run) -> None:
        try:
            found = as_array(run(arrays, len(rows)), len(rows))
        except PenstockError as failure:
            if failure.condition != _OF_A_ROW:
                raise
            found = self._one_by_one(rows, arrays, run)
        self.places[rows] = np.arange(self._count, self._count + len(rows))
        self._values.append(found)
        self._count += len(rows)

    def _one_by_one(self, rows: Ints, arrays: list[pa.Array], run: Run) -> pa.Array:
        """Only now, since most calls raise nothing. The value of a row that raises is NULL."""
        found: list[pa.Array] = []
        for at, row in enumerate(rows.tolist()):
            try:
                found.append(as_array(run([array.slice(at, 1) for array in arrays], 1), 1))
            except PenstockError as failure:
                if failure.condition != _OF_A_ROW:
                    raise
                self.failures[row] = failure
                found.append(pa.nulls(1, self._type))
        return pa.concat_arrays(found)

    def at(self, rows: Ints) -> pa.Array:
        if len(self._values) > 1:
            self._values = [pa.concat_arrays(self._values)]
        places = self.places[rows]
        (whole,) = self._values or [pa.nulls(0, self._type)]
        if len(places) == len(whole) and np.array_equal(places, np.arange(len(whole))):
            return whole
        return whole.take(pa.array(places))
