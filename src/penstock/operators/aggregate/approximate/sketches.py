"""Partials that hold a sketch of Apache DataSketches per cell, as bytes: quantiles and frequent values."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import datasketches
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.aggregate.approximate.base import CUT, Approximate, Coarseness, Floats
from penstock.operators.aggregate.partials.base import (
    ARITHMETIC_KINDS,
    Ints,
    Numbers,
    State,
    Values,
    parts_per_cell,
    per_cell,
)
from penstock.types import Type


class SketchPartial(Approximate):
    """`sketch` holds the values of the cell, `count` how many there are. Of cut cells only the count is known."""

    share_of_error = 0.5

    def own(self) -> dict[str, tuple[Any, Any]]:
        return {"count": (np.int64, 0), "sketch": (object, None)}

    @abstractmethod
    def sketch_of(self, values: Numbers) -> bytes:
        """A new sketch of some values."""

    @abstractmethod
    def joined(self, sketches: list[bytes]) -> bytes:
        """One sketch of the values of several."""

    def take(self, state: State, values: Values) -> None:
        (column,) = values.numbers
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))
        for cell, rows in per_cell(values.cells):
            known = state["sketch"][cell]
            fresh = self.sketch_of(column[rows])
            state["sketch"][cell] = fresh if known is None else self.joined([known, fresh])

    def join(self, state: State, at: Ints, other: State, prefix: str) -> None:
        np.add.at(state[prefix + "count"], at, other[prefix + "count"])
        if prefix == CUT:
            return
        for cell, parts in parts_per_cell(state["sketch"], at, other["sketch"]):
            state["sketch"][cell] = parts[0] if len(parts) == 1 else self.joined(parts)

    def restricted(self, state: State, low: int) -> State:
        found = super().restricted(state, low)
        found[CUT + "sketch"][:] = None
        return found

    def loose(self, state: State) -> Floats:
        """The share of the rows that may or may not be inside."""
        cut: Floats = state[CUT + "count"] / np.maximum(state["count"] + state[CUT + "count"], 1)
        return cut

    def within(self, state: State) -> npt.NDArray[np.bool_]:
        good: npt.NDArray[np.bool_] = self.loose(state) <= self.epsilon / 2
        return good


class ApproxPercentile(SketchPartial):
    """The value at a rank, off by at most `epsilon` of the rows, with a probability of 99 %: KLL sketches.

    The error is that of the value: how far the values at the ranks `epsilon` below and above are away.
    """

    name = "approx_percentile"
    functions = frozenset({"approx_percentile", "approx_percentile_error"})

    def __init__(self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness) -> None:
        super().__init__(types, epsilon, coarseness)
        self.size = next(size for size in _SIZES if _rank_error(size) <= epsilon / 2)

    def convert(self, values: pa.Array) -> Numbers:
        return super().convert(values).astype(np.float64, copy=False)

    def sketch_of(self, values: Numbers) -> bytes:
        sketch = datasketches.kll_doubles_sketch(self.size)
        sketch.update(np.ascontiguousarray(values))
        return bytes(sketch.serialize())

    def joined(self, sketches: list[bytes]) -> bytes:
        first, *others = map(datasketches.kll_doubles_sketch.deserialize, sketches)
        for other in others:
            first.merge(other)
        return bytes(first.serialize())

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        rank = float(parameter[0])
        wrong = function.endswith("_error")
        found: list[float | None] = []
        for data, loose in zip(state["sketch"], self.loose(state), strict=True):
            sketch = None if data is None else datasketches.kll_doubles_sketch.deserialize(data)
            if sketch is None or sketch.is_empty():
                found.append(None)
                continue
            value = sketch.get_quantile(rank)
            if not wrong:
                found.append(value)
                continue
            # A sketch that still has all its values is off by nothing.
            slack = (sketch.normalized_rank_error(False) if sketch.is_estimation_mode() else 0.0) + float(loose)
            low, high = (sketch.get_quantile(min(1.0, max(0.0, rank + s))) for s in (-slack, slack))
            found.append(max(high - value, value - low))
        return pa.array(found, pa.float64())


_SIZES = tuple(range(64, 4096, 32))


def _rank_error(size: int) -> float:
    return float(datasketches.kll_doubles_sketch(size).normalized_rank_error(False))


_SERIALIZERS = {
    "whole": datasketches.PyLongsSerDe,
    "real": datasketches.PyDoublesSerDe,
    "text": datasketches.PyStringsSerDe,
}


class ApproxTopK(SketchPartial):
    """The values that occur most often. Counts are off by at most `epsilon` of the rows, for certain: frequent items."""

    name = "approx_top_k"
    functions = frozenset({"approx_top_k", "approx_top_k_error"})
    kinds = ARITHMETIC_KINDS | {"TEXT"}

    def __init__(self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness) -> None:
        super().__init__(types, epsilon, coarseness)
        self.log_size = max(4, int(np.ceil(np.log2(3.5 / (epsilon / 2)))))
        kind = "text" if types[0].kind == "TEXT" else "real" if types[0].kind == "DOUBLE" else "whole"
        self.serializer = _SERIALIZERS[kind]()

    def convert(self, values: pa.Array) -> Numbers:
        if not pa.types.is_string(values.type):
            return super().convert(values)
        texts: Numbers = values.fill_null("").to_numpy(zero_copy_only=False)
        return texts

    def sketch_of(self, values: Numbers) -> bytes:
        sketch = datasketches.frequent_items_sketch(self.log_size)
        found, counts = np.unique(values, return_counts=True)
        for value, count in zip(
            (found + 0.0 if found.dtype.kind == "f" else found).tolist(), counts.tolist(), strict=True
        ):
            sketch.update(value, count)
        return bytes(sketch.serialize(self.serializer))

    def _read(self, data: bytes) -> Any:
        return datasketches.frequent_items_sketch.deserialize(data, self.serializer)

    def joined(self, sketches: list[bytes]) -> bytes:
        first, *others = map(self._read, sketches)
        for other in others:
            first.merge(other)
        return bytes(first.serialize(self.serializer))

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        top, wrong = int(parameter[0]), function.endswith("_error")
        rule = datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES
        found: list[Any] = []
        for data, cut in zip(state["sketch"], state[CUT + "count"].tolist(), strict=True):
            items = [] if data is None else self._read(data).get_frequent_items(rule, 0)
            items = sorted(items, key=lambda item: (-item[1], str(item[0])))[:top]
            if wrong:
                found.append(max((float(max(most + cut - n, n - least)) for _, n, least, most in items), default=None))
            else:
                found.append([{"item": value, "count": n} for value, n, _, _ in items] or None)
        return pa.array(found, type_.to_arrow())
