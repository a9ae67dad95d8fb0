"""CORR, COVAR_SAMP and COVAR_POP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Partial, State, Values
from penstock.operators.aggregate.partials.double_double import add_pairs, add_products, add_rows, product_of_sums
from penstock.types import Type

_SUMS = ("x", "y", "xx", "yy", "xy")


class Pairs(Partial):
    """Sums of two arguments, their squares and products in twice the precision of a double, over rows that have both."""

    name = "pairs"
    functions = frozenset({"corr", "covar_samp", "covar_pop"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return super().takes(function, types) and len(types) == 2

    def fields(self) -> dict[str, tuple[Any, Any]]:
        sums = [f"{name}_{part}" for name in _SUMS for part in ("high", "low")]
        return {"count": (np.int64, 0), **dict.fromkeys(sums, (np.float64, 0.0))}

    def add(self, state: State, values: Values) -> None:
        x, y = (numbers.astype(np.float64, copy=False) for numbers in values.numbers)
        at = values.cells
        state["count"] += np.bincount(at, minlength=len(state["count"]))
        for name, numbers in (("x", x), ("y", y)):
            add_rows(state[f"{name}_high"], state[f"{name}_low"], at, numbers)
        for name, one, two in (("xx", x, x), ("yy", y, y), ("xy", x, y)):
            add_products(state[f"{name}_high"], state[f"{name}_low"], at, one, two)

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.add.at(state["count"], at, other["count"])
        for name in _SUMS:
            high, low = f"{name}_high", f"{name}_low"
            add_pairs(state[high], state[low], at, other[high], other[low])

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        count = state["count"]
        together = self._about_means(state, "xy")
        if function == "corr":
            spread = np.maximum(self._about_means(state, "xx"), 0.0) * np.maximum(self._about_means(state, "yy"), 0.0)
            with np.errstate(invalid="ignore", divide="ignore"):
                values = together / np.sqrt(spread)
            # Where one of them does not vary there is no correlation.
            return pa.array(np.clip(values, -1.0, 1.0), mask=(count < 1) | (spread == 0), from_pandas=False)
        least = 2 if function == "covar_samp" else 1
        return pa.array(together / np.maximum(count - (least - 1), 1), mask=count < least, from_pandas=False)

    def _about_means(self, state: State, name: str) -> Any:
        one, two = name[0], name[1]
        return product_of_sums(
            state["count"],
            (state[f"{name}_high"], state[f"{name}_low"]),
            (state[f"{one}_high"], state[f"{one}_low"]),
            (state[f"{two}_high"], state[f"{two}_low"]),
        )
