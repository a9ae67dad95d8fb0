"""VARIANCE and STDDEV, of a sample and of a population."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Partial, State, Values
from penstock.operators.aggregate.partials.double_double import (
    Floats,
    add_pairs,
    add_products,
    add_rows,
    product_of_sums,
)
from penstock.types import Type


class Moments(Partial):
    """Sums of values and of their squares in twice the precision of a double.

    So much is left of their difference that the variance is as good as one in two passes, unless the mean is more than
    10^14 standard deviations away from 0; and the order of the rows leaves no trace.
    """

    name = "moments"
    functions = frozenset({"var_samp", "var_pop", "stddev_samp", "stddev_pop"})

    def fields(self) -> dict[str, tuple[Any, Any]]:
        names = ("high", "low", "square_high", "square_low")
        return {"count": (np.int64, 0), **dict.fromkeys(names, (np.float64, 0.0))}

    def add(self, state: State, values: Values) -> None:
        numbers = values.numbers[0].astype(np.float64, copy=False)
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))
        add_rows(state["high"], state["low"], values.cells, numbers)
        add_products(state["square_high"], state["square_low"], values.cells, numbers, numbers)

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.add.at(state["count"], at, other["count"])
        add_pairs(state["high"], state["low"], at, other["high"], other["low"])
        add_pairs(state["square_high"], state["square_low"], at, other["square_high"], other["square_low"])

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        count = state["count"]
        squares, sums = (state["square_high"], state["square_low"]), (state["high"], state["low"])
        about = product_of_sums(count, squares, sums, sums)
        least = 2 if function.endswith("_samp") else 1
        divisor = np.maximum(count - (least - 1), 1).astype(np.float64)
        spread: Floats = np.maximum(about, 0.0) / divisor
        spread = np.where(np.isnan(about), np.nan, spread)
        values = np.sqrt(spread) if function.startswith("stddev") else spread
        return pa.array(values, mask=count < least)
