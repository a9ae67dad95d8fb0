"""Samples of rows: of each cell those with the smallest hashes of their places in the log, a fixed number at most.

The hash is that of TABLESAMPLE. What is smallest among the smallest of several cells is smallest among all their rows, so cells merge exactly, in
any order, and a row leaves with its cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.functions.samples import xxhash64
from penstock.operators.aggregate.partials.base import Ints, Numbers, State, Values, numbers_of, per_cell
from penstock.operators.aggregate.partials.value_lists import ValueLists
from penstock.operators.aggregate.partials.vectors import MIXED, NOTHING, joined_length, mixed_lengths
from penstock.operators.mining.sample import Sample
from penstock.types import Type

PREFIX = "sample "


def sample_name(rows: int) -> str:
    """The name of the partial that keeps so many rows."""
    return f"{PREFIX}{rows}"


def make_sample(name: str, types: tuple[Type, ...]) -> Samples:
    return Samples(types, int(name.removeprefix(PREFIX)))


class Samples(ValueLists):
    """Rows of numbers, or of one array, with all of them finite.

    `count` has how many there were, `size` how many are kept, `values` these one after another: the place in the log, then the numbers.
    `length` is how many numbers a row has.
    """

    name = "sample"
    functions = frozenset()

    def __init__(self, types: tuple[Type, ...], most: int) -> None:
        super().__init__(types)
        self.most = most

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"count": (np.int64, 0), "length": (np.int64, NOTHING), **super().fields()}

    def item_type(self) -> pa.DataType:
        return pa.float64()

    def convert(self, values: pa.Array) -> Numbers:
        """Of arrays one object each; None where an element is no number."""
        if self.types[0].kind != "ARRAY":
            return numbers_of(values).astype(np.float64, copy=False)
        flat = values.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        ends = values.offsets.to_numpy()
        found: Numbers = np.full(len(values), None, object)
        for i, (low, high) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            own = flat[low:high]
            found[i] = own if len(own) and np.isfinite(own).all() else None
        return found

    def add(self, state: State, values: Values) -> None:
        if self.types[0].kind == "ARRAY":
            values = values.take(np.array([each is not None for each in values.numbers[0]], np.bool_))
            rows: Numbers = np.full(len(values.cells), None, object)
            for i, (place, own) in enumerate(zip(values.positions.tolist(), values.numbers[0], strict=True)):
                rows[i] = np.append(float(place), own)
        else:
            rows = np.column_stack([values.positions.astype(np.float64), *values.numbers])
        for cell, part in per_cell(values.cells, rows):
            state["count"][cell] += len(part)
            if rows.ndim == 2:
                self._take(state, cell, {len(self.types)}, [part.ravel()])
            else:
                self._take(state, cell, {len(each) - 1 for each in part}, list(part))

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.add.at(state["count"], at, other["count"])
        for cell, places in per_cell(at):
            parts = [part for part in other["values"][places] if part is not None]
            self._take(state, cell, set(other["length"][places].tolist()), parts)

    def _take(self, state: State, cell: int, lengths: set[int], parts: list[Numbers]) -> None:
        length, own = joined_length({int(state["length"][cell]), *lengths}), state["values"][cell]
        state["length"][cell] = length
        if length == MIXED:
            state["values"][cell], state["size"][cell] = None, 0
        elif parts:
            parts = parts if own is None else [own, *parts]
            kept = self._smallest(parts[0] if len(parts) == 1 else np.concatenate(parts), 1 + length)
            state["values"][cell], state["size"][cell] = kept, len(kept) // (1 + length)

    def _smallest(self, values: Numbers, wide: int) -> Numbers:
        if len(values) <= self.most * wide:
            return values
        rows = values.reshape(-1, wide)
        hashes = xxhash64(rows[:, 0].astype(np.int64))
        kept: Numbers = rows[np.argpartition(hashes, self.most - 1)[: self.most]].ravel()
        return kept

    def kept(self, state: State) -> int:
        return int((state["size"] * (1 + np.maximum(state["length"], 0))).sum())

    def samples(self, state: State) -> list[Sample]:
        """The rows of each cell."""
        if (state["length"] == MIXED).any():
            raise mixed_lengths("clusters")
        found = []
        for count, length, part in zip(state["count"].tolist(), state["length"].tolist(), state["values"], strict=True):
            rows = np.empty((0, 1)) if part is None else part.reshape(-1, 1 + length)
            found.append(Sample(np.ascontiguousarray(rows[np.argsort(rows[:, 0]), 1:]), count))
        return found

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        raise AssertionError("mining functions find their values in samples")
