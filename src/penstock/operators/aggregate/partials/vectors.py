"""VECTOR_SUM and VECTOR_AVG: arrays of numbers added up element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError, error
from penstock.operators.aggregate.partials.base import (
    ARITHMETIC_KINDS,
    Ints,
    Numbers,
    Partial,
    State,
    Values,
    per_cell,
)
from penstock.operators.aggregate.partials.sums import add_pairs
from penstock.types import Type

_WORD = 0xFFFFFFFF
NOTHING, MIXED = -1, -2
"""Lengths of cells without an array, and of those with arrays of several lengths, which have no sum."""


def joined_length(lengths: set[int]) -> int:
    """The length of cells that become one."""
    known = lengths - {NOTHING}
    return known.pop() if len(known) == 1 else MIXED if known else NOTHING


def mixed_lengths(function: str) -> PenstockError:
    detail = "arrays of different lengths are in one group"
    hint = "group by what tells them apart, or leave some out: WHERE ARRAY_LENGTH(x) = 1024"
    return error("invalid_value", field=function.upper(), detail=detail, hint=hint)


class Vectors(Partial):
    """A sum per place: of doubles in twice their precision, of whole numbers exactly. VECTOR_SUM wraps around, as SUM does.

    `sums` has an array per cell (None: nothing yet, or no sum): the high parts of all places, behind them the low parts. The low
    part of a whole number is its last 32 bits.
    """

    name = "vectors"
    functions = frozenset({"vector_sum", "vector_avg"})
    kinds = frozenset({"ARRAY"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return super().takes(function, types) and all(
            t.element is not None and t.element.kind in ARITHMETIC_KINDS for t in types
        )

    @property
    def whole(self) -> bool:
        element = self.types[0].element
        return element is not None and element.kind != "DOUBLE"

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"count": (np.int64, 0), "length": (np.int64, NOTHING), "sums": (object, None)}

    def convert(self, values: pa.Array) -> Numbers:
        """Each value as a sum of itself; NULL elements are 0."""
        flat = values.values.cast(pa.int64() if self.whole else pa.float64()).fill_null(0)
        numbers, ends = flat.to_numpy(zero_copy_only=False), values.offsets.to_numpy()
        high, low = (numbers >> 32, numbers & _WORD) if self.whole else (numbers, np.zeros(len(numbers)))
        found: Numbers = np.full(len(values), None, object)
        for i, (first, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            found[i] = np.concatenate([high[first:end], low[first:end]])
        return found

    def add(self, state: State, values: Values) -> None:
        (arrays,) = values.numbers
        lengths = np.array([len(each) for each in arrays], np.int64) // 2
        count = np.ones(len(arrays), np.int64)
        self.merge(state, values.cells, {"count": count, "length": lengths, "sums": arrays})

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.add.at(state["count"], at, other["count"])
        for cell, places in per_cell(at):
            length = joined_length({int(state["length"][cell]), *other["length"][places].tolist()})
            parts = [part for part in (state["sums"][cell], *other["sums"][places]) if part is not None]
            state["length"][cell] = length
            state["sums"][cell] = self._sum(parts) if parts and length != MIXED else None

    def _sum(self, parts: list[Numbers]) -> Numbers:
        if len(parts) == 1:
            return parts[0]
        size = len(parts[0]) // 2
        if self.whole:
            sums: Numbers = np.add.reduce(np.stack(parts), axis=0, dtype=np.int64)
            sums[:size] += sums[size:] >> 32
            sums[size:] &= _WORD
            return sums
        pair = np.zeros(2 * size)
        places = np.arange(size)
        for part in parts:
            add_pairs(pair[:size], pair[size:], places, part[:size], part[size:])
        return pair

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name != "sums":
            return super().to_arrow(name, field)
        parts = [part for part in field if part is not None]
        items = np.concatenate(parts) if parts else np.empty(0)
        ends = np.cumsum([0, *(0 if part is None else len(part) for part in field)])
        flat = pa.array(items, from_pandas=False).cast(pa.int64() if self.whole else pa.float64())
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), flat)

    def from_arrow(self, name: str, column: pa.Array) -> Numbers:
        if name != "sums":
            return super().from_arrow(name, column)
        ends, items = column.offsets.to_numpy(), column.values.to_numpy(zero_copy_only=False)
        field: Numbers = np.full(len(column), None, object)
        for i, (low, high) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            if low < high:
                field[i] = items[low:high]
        return field

    def kept(self, state: State) -> int:
        return int(np.maximum(state["length"], 0).sum())

    def nbytes(self, state: State) -> int:
        known = int(np.count_nonzero(state["length"] >= 0))
        return super().nbytes(state) + 16 * self.kept(state) + 112 * known

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        if (state["length"] == MIXED).any():
            raise mixed_lengths(function)
        lines = zip(state["count"].tolist(), state["length"].tolist(), state["sums"], strict=True)
        found = [self._finished(function, *line) for line in lines]
        return pa.array(found, type_.to_arrow(), from_pandas=False)

    def _finished(self, function: str, count: int, length: int, sums: Numbers | None) -> Numbers | None:
        if length == NOTHING:
            return None
        parts: Numbers = np.empty(0, np.int64 if self.whole else np.float64) if sums is None else sums
        high, low = parts[:length], parts[length:]
        if function == "vector_avg":
            mean: Numbers = (high * (2.0**32 if self.whole else 1.0) + low) / count
            return mean
        total: Numbers = (high << 32 if self.whole else high) + low
        return total
