"""The first rows of an order, for QUALIFY: a cell holds the order keys, times and positions of no more rows than are asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import NUMBER_KINDS, Ints, Numbers, State, Values
from penstock.operators.aggregate.partials.value_lists import WideLists
from penstock.types import Type

PREFIX = "top_rows "
MOST_ROWS = 1000
MOST_PLACES = 1 << 22
"""So many rows of all cells together are chosen one by one; more are put into order first."""


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


class TopRows(WideLists):
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
    def wide(self) -> int:
        return 2 * len(self.order.keys) + 2

    def column(self, values: Values) -> Numbers:
        columns = []
        for place, (descending, nulls_first) in enumerate(self.order.keys):
            missing, numbers = values.numbers[2 * place : 2 * place + 2]
            ascending = _ascending(numbers)
            columns += [missing ^ 1 if nulls_first else missing, ~ascending if descending else ascending]
        return np.stack([*columns, values.times, values.positions], axis=1)

    def add(self, state: State, values: Values) -> None:
        self._take(state, values.cells, self.column(values))

    def merge(self, state: State, at: Ints, other: State) -> None:
        known = np.flatnonzero(other["size"])
        if len(known):
            cells = np.repeat(at[known], other["size"][known])
            self._take(state, cells, np.concatenate(other["values"][known].tolist()))

    def _take(self, state: State, cells: Ints, rows: Numbers) -> None:
        """Take rows into their cells, all at once: most are thrown away."""
        is_touched = np.zeros(len(state["size"]), np.bool_)
        is_touched[cells] = True
        touched, place = np.flatnonzero(is_touched), np.cumsum(is_touched) - 1
        own = touched[state["size"][touched] > 0]
        if len(own):
            cells = np.concatenate([np.repeat(own, state["size"][own]), cells])
            rows = np.concatenate([*state["values"][own].tolist(), rows])
        kept, sizes = self._first_ones(place[cells], rows, len(touched))
        found = np.full(len(touched), None, object)
        rows, ends = rows[kept], np.cumsum(sizes)
        for i, (low, high) in enumerate(zip((ends - sizes).tolist(), ends.tolist(), strict=True)):
            found[i] = rows[low:high]
        state["values"][touched], state["size"][touched] = found, sizes

    def _first_ones(self, cells: Ints, rows: Numbers, count: int) -> tuple[Ints, Ints]:
        """The places of the first rows of each cell, cell by cell and in order, and how many each cell has."""
        most = self.order.most
        if not self.order.ties and count * most <= MOST_PLACES:
            best, sizes = first_rows(cells, np.ascontiguousarray(rows), most, count)
            return best[np.arange(most) < sizes[:, None]], sizes
        order = np.lexsort((*(rows[:, place] for place in reversed(range(self.wide))), cells))
        cells, keys = cells[order], rows[order, :-2]
        at, new = np.arange(len(order)), np.ones(len(order), np.bool_)
        new[1:] = cells[1:] != cells[:-1]
        begins = np.maximum.accumulate(np.where(new, at, 0))
        if self.order.ties:  # the place of the first one that is alike counts
            new[1:] |= (keys[1:] != keys[:-1]).any(axis=1)
            at = np.maximum.accumulate(np.where(new, at, 0))
        chosen = at - begins < most
        return order[chosen], np.bincount(cells[chosen], minlength=count)

    def item_type(self) -> pa.DataType:
        return pa.int64()

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        """The positions of the rows."""
        found = [None if part is None else part[:, -1].tolist() for part in state["values"]]
        return pa.array(found, type_.to_arrow())


@kernel
def first_rows(cells: Ints, rows: Numbers, most: int, count: int) -> tuple[Ints, Ints]:
    """The places of the first `most` rows of each cell in the order of their columns, and how many there are."""
    best, sizes = np.empty((count, most), np.int64), np.zeros(count, np.int64)
    wide = rows.shape[1]
    for i in range(len(cells)):
        cell = cells[i]
        size = sizes[cell]
        at = size
        while at > 0:
            other = best[cell, at - 1]
            column = 0
            while column < wide - 1 and rows[i, column] == rows[other, column]:
                column += 1
            if rows[i, column] >= rows[other, column]:
                break
            at -= 1
        if at == most:
            continue
        last = min(size, most - 1)
        for place in range(last, at, -1):
            best[cell, place] = best[cell, place - 1]
        best[cell, at] = i
        sizes[cell] = last + 1
    return best, sizes


def _ascending(numbers: Numbers) -> Ints:
    """Numbers as whole ones in the same order: equal zeros, and NaN above all others."""
    if numbers.dtype != np.float64:
        return numbers
    one_of_each = numbers + 0.0  # -0.0 + 0.0 is 0.0
    one_of_each[np.isnan(one_of_each)] = np.nan
    bits = one_of_each.view(np.int64)
    found: Ints = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    return found
