"""SUM and AVG."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Partial, State, Values
from penstock.operators.aggregate.partials.double_double import add_pairs, add_rows
from penstock.types import Type


class Total(Partial):
    """A sum: of doubles in twice their precision, of whole numbers exactly and wrapping around, as Spark's does."""

    name = "total"
    functions = frozenset({"sum", "avg"})

    def fields(self) -> dict[str, tuple[Any, Any]]:
        fields: dict[str, tuple[Any, Any]] = {
            "count": (np.int64, 0),
            "high": (np.float64, 0.0),
            "low": (np.float64, 0.0),
        }
        # A mean does not wrap around, so both are kept.
        return {**fields, "whole": (np.int64, 0)} if self.whole else fields

    def add(self, state: State, values: Values) -> None:
        (numbers,) = values.numbers
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))
        add_rows(state["high"], state["low"], values.cells, numbers.astype(np.float64, copy=False))
        if self.whole:
            np.add.at(state["whole"], values.cells, numbers)

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.add.at(state["count"], at, other["count"])
        add_pairs(state["high"], state["low"], at, other["high"], other["low"])
        if self.whole:
            np.add.at(state["whole"], at, other["whole"])

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        none = state["count"] == 0
        if function == "avg":
            means = (state["high"] + state["low"]) / np.maximum(state["count"], 1)
            return pa.array(means, mask=none)
        sums = state["whole"] if self.whole else state["high"] + state["low"]
        return pa.array(sums, mask=none).cast(type_.to_arrow())
