"""Exact percentiles and MODE.

PERCENTILE, PERCENTILE_CONT and MEDIAN interpolate between two neighbouring values; PERCENTILE_DISC gives one of the values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Numbers, State
from penstock.operators.aggregate.partials.value_lists import ValueLists
from penstock.types import Type


class Percentile(ValueLists):
    """All values. NaN is above every number."""

    name = "values"
    functions = frozenset({"percentile", "percentile_disc", "percentile_disc_desc", "mode", "mode_desc"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return super().takes(function, types) and len(types) == 1

    def joined(self, parts: list[Numbers]) -> Numbers:
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

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
