"""Partials that keep values one by one: a cell holds an array of them, as long as it has to be."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values


class ValueLists(Partial):
    """A partial with lists: `values` has one array per cell (None: nothing yet), `size` is its length.

    The lists grow with the rows, so the owner of the cells limits the sum of sizes (`kept`).
    """

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"size": (np.int64, 0), "values": (object, None)}

    @abstractmethod
    def joined(self, parts: list[Numbers]) -> Numbers:
        """What a cell keeps of the rows of several."""

    def column(self, values: Values) -> Numbers:
        """What is kept of each row."""
        return values.numbers[0]

    def add(self, state: State, values: Values) -> None:
        order = np.argsort(values.cells, kind="stable")
        cells, column = values.cells[order], self.column(values)[order]
        firsts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1])) if len(cells) else cells
        for cell, part in zip(cells[firsts].tolist(), np.split(column, firsts[1:]), strict=True) if len(cells) else ():
            self._take(state, cell, [part])

    def merge(self, state: State, at: Ints, other: State) -> None:
        order = np.argsort(at, kind="stable")
        parts: list[Numbers] = []
        for place, i in enumerate(order.tolist()):
            if other["values"][i] is not None:
                parts.append(other["values"][i])
            last = place + 1 == len(order) or at[order[place + 1]] != at[i]
            if last and parts:
                self._take(state, int(at[i]), parts)
                parts = []

    def _take(self, state: State, cell: int, parts: list[Numbers]) -> None:
        known = state["values"][cell]
        kept = self.joined(parts if known is None else [known, *parts])
        state["values"][cell], state["size"][cell] = kept, len(kept)

    def item_type(self) -> pa.DataType:
        return pa.int64() if self.whole else pa.float64()

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name != "values":
            return super().to_arrow(name, field)
        parts = [part for part in field if part is not None]
        items = np.concatenate(parts) if parts else np.empty(0)
        ends = np.cumsum([0, *(0 if part is None else len(part) for part in field)])
        if items.dtype == object:
            flat = pa.array(items.tolist(), self.item_type())
        else:
            flat = pa.array(items, from_pandas=False).cast(self.item_type())
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), flat)

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        if name != "values":
            return super().from_arrow(name, column)
        ends, items = column.offsets.to_numpy(), self.items_of(column.values)
        field: Numbers = np.full(len(column), None, object)
        for i, (low, high) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            if low < high:
                field[i] = items[low:high]
        return field

    def items_of(self, flat: pa.Array) -> Numbers:
        items: Numbers = flat.to_numpy(zero_copy_only=False)
        return items

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + self.kept(state) * 8 + 112 * int(np.count_nonzero(state["size"]))

    def kept(self, state: State) -> int:
        return int(state["size"].sum())
