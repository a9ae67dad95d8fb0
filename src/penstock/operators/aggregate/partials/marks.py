"""Marks of a cell, which decide whether all its rows count: their latest time, and the log position of their oldest tuple."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.operators.aggregate.partials.base import Accumulator, Ints, State, Values

LATEST = "latest"


class Marks(Accumulator):
    """The marks of results of a join. The arguments are the latest time and a log position per input."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs

    def fields(self) -> dict[str, tuple[Any, Any]]:
        lowest = {oldest(place): (np.int64, np.iinfo(np.int64).max) for place in range(self.inputs)}
        return {LATEST: (np.int64, np.iinfo(np.int64).min), **lowest}

    def add(self, state: State, values: Values) -> None:
        given = dict(zip(self.fields(), values.numbers, strict=True))
        self.merge(state, values.cells, given)

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.maximum.at(state[LATEST], at, other[LATEST])
        for place in range(self.inputs):
            np.minimum.at(state[oldest(place)], at, other[oldest(place)])


def oldest(place: int) -> str:
    return f"oldest{place}"
