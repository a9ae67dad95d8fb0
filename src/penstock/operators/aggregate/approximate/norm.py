"""APPROX_NORM: Lp norms of how often each value occurs, by p-stable sketches that add up.

The numbers of the p-stable distribution are made from hashes: the same key and row always give the same number.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.approximate.base import CUT, Bracketed, Brackets, Coarseness, Floats, hashes_of, mix
from penstock.operators.aggregate.partials.base import (
    SCALAR_KINDS,
    Ints,
    Numbers,
    State,
    Values,
    parts_per_cell,
    per_cell,
)
from penstock.types import Type

_GRID = 512
_BATCH = 2048
_SURER = 3.0
_OF_SKETCH = 0.8
"""The sketch's share of the error; the rest is for the cell that BEGIN cuts."""


@kernel
def stable_numbers(keys: npt.NDArray[np.uint64], rows: int, p: float) -> Floats:
    """A row of `rows` independent numbers per key (after Chambers, Mallows and Stuck)."""
    out = np.empty((len(keys), rows))
    for i in range(len(keys)):
        for j in range(rows):
            seed = mix(keys[i] + np.uint64(j) * np.uint64(0xD1B54A32D192ED03))
            out[i, j] = stable(unit(seed), unit(mix(seed)), p)
    return out


@kernel
def unit(bits: np.uint64) -> float:
    """Strictly between 0 and 1."""
    return (np.float64(bits >> np.uint64(11)) + 0.5) / 9007199254740992.0


@kernel
def stable(u: float, v: float, p: float) -> float:
    angle, wait = math.pi * (u - 0.5), -math.log(v)
    if p == 1.0:
        return math.tan(angle)
    if p == 2.0:
        return 2.0 * math.sin(angle) * math.sqrt(wait)
    spread: float = math.sin(p * angle) / math.cos(angle) ** (1.0 / p)
    waited: float = (math.cos((1.0 - p) * angle) / wait) ** ((1.0 - p) / p)
    return spread * waited


@functools.cache
def median_and_spread(p: float) -> tuple[float, float]:
    """The median of the absolute values, and the relative standard error of a sample's median times sqrt(sample size)."""
    sizes = _grid(p, _GRID)
    low, median, high = np.quantile(sizes, [0.48, 0.5, 0.52])
    density = 0.04 / (high - low)
    return float(median), float(1 / (2 * density * median))


@kernel
def _grid(p: float, steps: int) -> Floats:
    out = np.empty(steps * steps)
    for i in range(steps):
        for j in range(steps):
            out[i * steps + j] = abs(stable((i + 0.5) / steps, (j + 0.5) / steps, p))
    return out


class ApproxNorm(Bracketed):
    """(sum over values of occurrences^p)^(1/p) within `epsilon`, with a probability of 99.7 %.

    A norm only grows with more rows, so it lies between those without and with the cut cell.
    """

    name = "approx_norm"
    functions = frozenset({"approx_norm", "approx_norm_error"})
    kinds = SCALAR_KINDS

    def __init__(self, types: tuple[Type, ...], epsilon: float, coarseness: Coarseness, p: float = 2.0) -> None:
        super().__init__(types, epsilon, coarseness)
        self.p, self.share = p, epsilon * (1 - _OF_SKETCH) / 2
        self.median, spread = median_and_spread(p)
        self.rows = math.ceil((_SURER * spread / (_OF_SKETCH * epsilon)) ** 2)
        self.slack = _SURER * spread / math.sqrt(self.rows)

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
        for cell, parts in parts_per_cell(state[name], at, other[name]):
            state[name][cell] = np.sum([self._sketch(data) for data in parts], axis=0).tobytes()

    def _sketch(self, data: bytes | None) -> Floats:
        return np.zeros(self.rows) if data is None else np.frombuffer(data, np.float64)

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
        return nothing_cut | super().within(state)
