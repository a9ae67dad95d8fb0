"""Aggregates that keep values one by one: DISTINCT, percentiles, MODE and TWA. A cell holds an array, as long as it has to be."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import (
    ARITHMETIC_KINDS,
    OBJECT_KINDS,
    SCALAR_KINDS,
    Ints,
    Numbers,
    Partial,
    State,
    Values,
    parts_per_cell,
    per_cell,
)
from penstock.operators.aggregate.partials.objects import item_bytes, objects_of
from penstock.types import Type


class ValueLists(Partial):
    """A partial with lists: `values` has one array per cell (None: nothing yet), `size` is its length.

    The lists grow with the rows, so the owner of the cells limits the sum of sizes (`kept`).
    """

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"size": (np.int64, 0), "values": (object, None)}

    def joined(self, parts: list[Numbers]) -> Numbers:
        """What a cell keeps of the rows of several."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def column(self, values: Values) -> Numbers:
        """What is kept of each row."""
        return values.numbers[0]

    def add(self, state: State, values: Values) -> None:
        for cell, part in per_cell(values.cells, self.column(values)):
            known = state["values"][cell]
            self._keep(state, cell, [part] if known is None else [known, part])

    def merge(self, state: State, at: Ints, other: State) -> None:
        for cell, parts in parts_per_cell(state["values"], at, other["values"]):
            self._keep(state, cell, parts)

    def _keep(self, state: State, cell: int, parts: list[Numbers]) -> None:
        kept = self.joined(parts)
        state["values"][cell], state["size"][cell] = kept, len(kept)

    def item_type(self) -> pa.DataType:
        return pa.int64() if self.whole else pa.float64()

    def to_arrow(self, name: str, field: Numbers) -> pa.Array:
        if name != "values":
            return super().to_arrow(name, field)
        parts = [part for part in field if part is not None]
        items = np.concatenate(parts) if parts else np.empty(0, object)
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


class WideLists(ValueLists):
    """Lists of rows of several numbers each, which travel one behind the other."""

    @property
    @abstractmethod
    def wide(self) -> int:
        """How many numbers a row has."""

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
                field[i] = None if part is None else part.reshape(-1, self.wide)
        return field

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + 8 * (self.wide - 1) * self.kept(state)


class Distinct(ValueLists):
    """Every value once. NaNs are equal, and so are both zeros, as in GROUP BY."""

    name = "distinct"
    functions = frozenset({"count_distinct", "array_distinct", "sum_distinct", "avg_distinct"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        kinds = {"count_distinct": SCALAR_KINDS, "array_distinct": frozenset({"TIMESTAMP"})}.get(
            function, ARITHMETIC_KINDS
        )
        return function in cls.functions and len(types) == 1 and types[0].kind in kinds

    @property
    def _objects(self) -> bool:
        return self.types[0].kind in OBJECT_KINDS

    def convert(self, values: pa.Array) -> Numbers:
        if self._objects:
            return objects_of(values)
        numbers = super().convert(values)
        return numbers if self.whole else numbers + 0.0  # -0.0 + 0.0 is 0.0

    def joined(self, parts: list[Numbers]) -> Numbers:
        if self._objects:
            found = set().union(*parts)
            kept: Numbers = np.empty(len(found), object)
            kept[:] = list(found)
            return kept
        return np.unique(np.concatenate(parts))

    def item_type(self) -> pa.DataType:
        return self.types[0].to_arrow() if self._objects else super().item_type()

    def items_of(self, flat: pa.Array) -> Numbers:
        return objects_of(flat) if self._objects else super().items_of(flat)

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + (item_bytes(state["values"]) if self._objects else 0)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        if function == "count_distinct":
            return pa.array(state["size"]).cast(type_.to_arrow())
        if function == "array_distinct":
            return self.to_arrow("values", state["values"]).cast(type_.to_arrow())
        sums = [None if part is None else _exact_sum(part.tolist()) for part in state["values"]]
        if function == "avg_distinct":
            sums = [None if s is None else s / n for s, n in zip(sums, state["size"].tolist(), strict=True)]
        elif self.whole:
            sums = [None if s is None else (s + 2**63) % 2**64 - 2**63 for s in sums]  # it wraps around, as SUM does
        return pa.array(sums, type_.to_arrow(), from_pandas=False)


def _exact_sum(values: list[Any]) -> Any:
    if isinstance(values[0], int):
        return sum(values)
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


class Percentile(ValueLists):
    """All values, for percentiles and MODE. NaN is above every number.

    PERCENTILE, PERCENTILE_CONT and MEDIAN interpolate between two neighbouring values; PERCENTILE_DISC gives one of them.
    """

    name = "values"
    functions = frozenset({"percentile", "percentile_disc", "percentile_disc_desc", "mode", "mode_desc"})

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        found = [None if part is None else _say(function, part, parameter) for part in state["values"]]
        return pa.array(found, type_.to_arrow(), from_pandas=False)


def _say(function: str, values: Numbers, fraction: Any) -> Any:
    if function == "percentile":
        return percentile(values, fraction)
    backwards = function.endswith("_desc")
    return mode(values, backwards) if function.startswith("mode") else percentile_disc(values, fraction, backwards)


def percentile(values: Numbers, fraction: float) -> float:
    """The value at a fraction of the way from the first to the last in order; between two of them in proportion."""
    place = (len(values) - 1) * fraction
    low, high = math.floor(place), math.ceil(place)
    ordered = np.partition(values, (low, high))
    below, above = float(ordered[low]), float(ordered[high])
    return below if low == high or below == above else (high - place) * below + (place - low) * above


def percentile_disc(values: Numbers, fraction: float, backwards: bool) -> Any:
    """The first value in order at which that fraction of the values, or more, has been seen."""
    rank = max(1, math.ceil(len(values) * fraction))
    place = len(values) - rank if backwards else rank - 1
    return np.partition(values, place)[place].item() + 0  # both zeros are one


def mode(values: Numbers, last: bool) -> Any:
    """The most frequent value, of several the first in order, or the last."""
    known, counts = np.unique(values, return_counts=True)
    found = np.flatnonzero(counts == counts.max())
    return known[found[-1 if last else 0]].item() + 0


class TimeWeighted(WideLists):
    """The average over time of a value that stands until the next one is reported.

    Every reading is kept with its time: a late one may come between any two, and both parts of a slice may interleave.
    """

    name = "weighted"
    functions = frozenset({"twa"})
    wide = 3  # ts, position, value: all of them fit into a double

    def item_type(self) -> pa.DataType:
        return pa.float64()

    def column(self, values: Values) -> Numbers:
        parts = (values.times, values.positions, values.numbers[0])
        return np.stack([part.astype(np.float64) for part in parts], axis=1)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        """`parameter`: until when the last value stands, per cell."""
        found = [
            None if part is None else time_weighted(part, float(end))
            for part, end in zip(state["values"], np.broadcast_to(parameter, len(state["size"])), strict=True)
        ]
        return pa.array(found, type_.to_arrow(), from_pandas=False)


class SymbolLists(ValueLists):
    """Every value with its time and its place in the log, for sequences of symbols: TEXT, BOOLEAN and whole numbers."""

    name = "symbols"
    functions = frozenset({"symbols"})
    kinds = frozenset({"TEXT", "BOOLEAN", "INT", "BIGINT"})

    def convert(self, values: pa.Array) -> Numbers:
        return objects_of(values)

    def column(self, values: Values) -> Numbers:
        rows = zip(values.times.tolist(), values.positions.tolist(), values.numbers[0].tolist(), strict=True)
        return _as_objects(list(rows))

    def item_type(self) -> pa.DataType:
        parts = [("ts", pa.int64()), ("position", pa.int64()), ("value", self.types[0].to_arrow())]
        return pa.struct(parts)

    def items_of(self, flat: pa.Array) -> Numbers:
        return _as_objects(list(zip(*(part.to_pylist() for part in flat.flatten()), strict=True)))

    def nbytes(self, state: State) -> int:
        return super().nbytes(state) + item_bytes(state["values"])

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        raise AssertionError("mining functions see the readings themselves")


def _as_objects(rows: list[tuple[int, int, Any]]) -> Numbers:
    return np.fromiter(rows, object, len(rows))


def time_weighted(readings: Numbers, end: float) -> float:
    """The average from the first reading to the end. Of several at one time the last to come counts."""
    ordered = readings[np.lexsort((readings[:, 1], readings[:, 0]))]
    times, values = ordered[:, 0], ordered[:, 2]
    spans = np.diff(np.append(times, max(end, times[-1])))
    total = float(spans.sum())
    if total == 0:
        return float(values[-1])
    stood = spans > 0
    return float(_exact_sum((values[stood] * spans[stood]).tolist())) / total
