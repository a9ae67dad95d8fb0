"""APPROX_NORM: Lp norms of how often each value occurs, by p-stable sketches that add up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.aggregate.approximate.base import CUT, Approximate, Brackets, Coarseness, Floats, per_cell
from penstock.operators.aggregate.approximate.hashes import hashes_of
from penstock.operators.aggregate.approximate.stable_distribution import median_and_spread, stable_numbers
from penstock.operators.aggregate.partials.base import Ints, Numbers, State, Values
from penstock.types import Type

_BATCH = 2048
_SURER = 3.0
_OF_SKETCH = 0.8
"""The sketch's share of the error; the rest is for the cell that BEGIN cuts."""


class ApproxNorm(Approximate):
    """(sum over values of occurrences^p)^(1/p) within `epsilon`, with a probability of 99.7 %.

    A norm only grows with more rows, so it lies between those without and with the cut cell.
    """

    name = "approx_norm"
    functions = frozenset({"approx_norm", "approx_norm_error"})
    bytes_fields = frozenset({"sketch"})

    def __init__(self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness, p: float = 2.0) -> None:
        super().__init__(types, epsilon, coarseness)
        self.p, self.share = p, epsilon * (1 - _OF_SKETCH) / 2
        self.median, spread = median_and_spread(p)
        self.rows = math.ceil((_SURER * spread / (_OF_SKETCH * epsilon)) ** 2)
        self.slack = _SURER * spread / math.sqrt(self.rows)

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function in cls.functions and len(types) == 1 and types[0].kind not in ("ARRAY", "STRUCT")

    def own(self) -> dict[str, tuple[Any, Any]]:
        return {"count": (np.int64, 0), "sketch": (object, None)}

    def convert(self, values: pa.Array) -> Numbers:
        return hashes_of(values)

    def take(self, state: State, values: Values) -> None:
        hashes = values.numbers[0].view(np.uint64)
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))
        for cell, rows in per_cell(values.cells):
            keys, counts = np.unique(hashes[rows], return_counts=True)
            total = self._sketch(state["sketch"][cell])
            for begin in range(0, len(keys), _BATCH):
                part = slice(begin, begin + _BATCH)
                total = total + counts[part].astype(np.float64) @ stable_numbers(keys[part], self.rows, self.p)
            state["sketch"][cell] = total.tobytes()

    def join(self, state: State, at: Ints, other: State, prefix: str) -> None:
        np.add.at(state[prefix + "count"], at, other[prefix + "count"])
        name = prefix + "sketch"
        for cell, rows in per_cell(at):
            parts = [data for data in [state[name][cell], *other[name][rows]] if data is not None]
            if parts:
                state[name][cell] = np.sum([self._sketch(data) for data in parts], axis=0).tobytes()

    def _sketch(self, data: bytes | None) -> Floats:
        return np.zeros(self.rows) if data is None else np.frombuffer(data, np.float64)

    def weights(self, state: State) -> Floats:
        return state["count"].astype(np.float64)

    def _norm(self, sketch: Floats) -> float:
        return float(np.median(np.abs(sketch))) / self.median

    def brackets(self, state: State) -> Brackets:
        count = len(state["count"])
        inside, most = np.zeros(count), np.zeros(count)
        for i, (data, cut) in enumerate(zip(state["sketch"], state[CUT + "sketch"], strict=True)):
            sketch = self._sketch(data)
            inside[i] = self._norm(sketch)
            most[i] = inside[i] if cut is None else max(inside[i], self._norm(sketch + self._sketch(cut)))
        known = state["count"] + state[CUT + "count"] > 0
        return Brackets((inside + most) / 2, inside / (1 + self.slack), most / max(1e-9, 1 - self.slack), known)

    def within(self, state: State) -> npt.NDArray[np.bool_]:
        nothing_cut: npt.NDArray[np.bool_] = state[CUT + "count"] == 0
        return nothing_cut | self.brackets(state).within(self.epsilon)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        found = self.brackets(state)
        return pa.array(found.errors if function.endswith("_error") else found.values, mask=~found.known)
