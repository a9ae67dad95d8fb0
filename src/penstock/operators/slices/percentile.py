"""PERCENTILE, PERCENTILE_CONT and MEDIAN: exact, with a straight line between the two values beside the place asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.slices.base import Numbers, State
from penstock.operators.slices.ragged import Ragged
from penstock.types import Type


class Percentile(Ragged):
    """All values. NaN is above every number."""

    name = "values"
    functions = frozenset({"percentile"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return super().takes(function, types) and len(types) == 1

    def joined(self, parts: list[Numbers]) -> Numbers:
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        found = [None if part is None else percentile(part, parameter) for part in state["values"]]
        return pa.array(found, type_.to_arrow(), from_pandas=False)


def percentile(values: Numbers, fraction: float) -> float:
    """The value at a fraction of the way from the first to the last in order; between two of them in proportion."""
    place = (len(values) - 1) * fraction
    low, high = math.floor(place), math.ceil(place)
    ordered = np.partition(values, (low, high))
    below, above = float(ordered[low]), float(ordered[high])
    return below if low == high or below == above else (high - place) * below + (place - low) * above
