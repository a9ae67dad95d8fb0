"""The first rows of an order, for QUALIFY: a cell holds the order keys, times and positions of no more rows than are asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import NUMBER_KINDS, Ints, Numbers, State, Values
from penstock.operators.aggregate.partials.value_lists import ValueLists
from penstock.types import Type

PREFIX = "top_rows "
MOST_ROWS = 1000


class RowOrder(NamedTuple):
    """How many rows are asked for, whether all that are alike with the last one belong to them, and which way each key goes."""

    most: int
    ties: bool
    keys: tuple[tuple[bool, bool], ...]  # descending, NULL first


def top_rows_name(order: RowOrder) -> str:
    """The name of the function and of its partial: two calls share cells if they ask for the same."""
    keys = ",".join(f"{'d' if descending else 'a'}{'f' if first else 'l'}" for descending, first in order.keys)
    return f"{PREFIX}most={order.most} ties={int(order.ties)} keys={keys}"


def make_top_rows(name: str, types: tuple[Type, ...]) -> TopRows:
    given = dict(part.split("=") for part in name.removeprefix(PREFIX).split(" "))
    keys = tuple((key[0] == "d", key[1] == "f") for key in given["keys"].split(","))
    return TopRows(types, RowOrder(int(given["most"]), given["ties"] == "1", keys))


class TopRows(ValueLists):
    """The first rows of an order; rows that are alike in it come by time and log position.

    It has two arguments per key: whether it is NULL, and its value. `values` is a list of rows per cell, with two numbers per key
    that ascend in the order, the time and the position.
    """

    functions = frozenset()
    kinds = NUMBER_KINDS
    keeps_nulls = True

    def __init__(self, types: tuple[Type, ...], order: RowOrder) -> None:
        super().__init__(types)
        self.order = order

    @property
    def name(self) -> str:  # type: ignore[override]
        return top_rows_name(self.order)

    @property
    def _wide(self) -> int:
        return 2 * len(self.order.keys) + 2

    def column(self, values: Values) -> Numbers:
        columns = []
        for place, (descending, nulls_first) in enumerate(self.order.keys):
            missing, numbers = values.numbers[2 * place : 2 * place + 2]
            ascending = _ascending(numbers)
            columns += [missing ^ 1 if nulls_first else missing, ~ascending if descending else ascending]
        return np.stack([*columns, values.times, values.positions], axis=1)

    def add(self, state: State, values: Values) -> None:
        """Of many rows of a cell, most are thrown away at once."""
        rows = self.column(values)
        order = self._sorted(rows, values.cells)
        cells, rows = values.cells[order], rows[order]
        kept = self._first_ones(cells, rows)
        cells, rows = cells[kept], rows[kept]
        firsts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1])) if len(cells) else cells
        for cell, part in zip(cells[firsts].tolist(), np.split(rows, firsts[1:]), strict=False):
            known = state["values"][cell]
            self._keep(state, cell, [part] if known is None else [known, part])

    def joined(self, parts: list[Numbers]) -> Numbers:
        rows: Numbers = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if len(rows) <= self.order.most:
            return rows
        one = np.zeros(len(rows), np.int64)
        rows = rows[self._sorted(rows, one)]
        found: Numbers = rows[self._first_ones(one, rows)]
        return found

    def _sorted(self, rows: Numbers, cells: Ints) -> Ints:
        return np.lexsort((*(rows[:, place] for place in reversed(range(self._wide))), cells))

    def _first_ones(self, cells: Ints, rows: Numbers) -> np.ndarray:
        """Which of some sorted rows are among the first ones of their cell."""
        at = np.arange(len(rows))
        new = np.ones(len(rows), np.bool_)
        new[1:] = cells[1:] != cells[:-1]
        begins = np.maximum.accumulate(np.where(new, at, 0))
        if self.order.ties:
            new[1:] |= (rows[1:, :-2] != rows[:-1, :-2]).any(axis=1)
            at = np.maximum.accumulate(np.where(new, at, 0))
        found: np.ndarray = at - begins < self.order.most
        return found

    def item_type(self) -> pa.DataType:
        return pa.int64()

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name != "values":
            return super().to_arrow(name, field)
        flat: Numbers = np.full(len(field), None, object)
        for i, part in enumerate(field):
            flat[i] = None if part is None else part.ravel()
        return super().to_arrow(name, flat)

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        field = super().from_arrow(name, column)
        if name == "values":
            for i, part in enumerate(field):
                field[i] = None if part is None else part.reshape(-1, self._wide)
        return field

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + 8 * (self._wide - 1) * self.kept(state)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        """The positions of the rows."""
        found = [None if part is None else part[:, -1].tolist() for part in state["values"]]
        return pa.array(found, type_.to_arrow())


def _ascending(numbers: Numbers) -> Ints:
    """Numbers as whole ones in the same order: equal zeros, and NaN above all others."""
    if numbers.dtype != np.float64:
        return numbers
    one_of_each = numbers + 0.0  # -0.0 + 0.0 is 0.0
    one_of_each[np.isnan(one_of_each)] = np.nan
    bits = one_of_each.view(np.int64)
    found: Ints = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    return found
