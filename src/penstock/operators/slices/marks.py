"""What decides whether all rows of a cell count: the latest time among them, and where in each log their oldest tuple stands."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from penstock.operators.slices.base import Ints, Partial, State, Values
from penstock.types import BIGINT, Type

LATEST = "latest"


class Marks(Partial):
    """Of results of a join over so many inputs. Its arguments are the latest time and a log position per input."""

    name = "marks"
    functions = frozenset()

    def __init__(self, inputs: int) -> None:
        super().__init__((BIGINT,) * (1 + inputs))
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

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> NoReturn:
        raise NotImplementedError("nobody asks for marks")


def oldest(place: int) -> str:
    return f"oldest{place}"
