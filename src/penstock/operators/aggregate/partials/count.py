"""COUNT(*) and COUNT(x)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Partial, State, Values
from penstock.types import Type


class Count(Partial):
    """How many values there are. Without an argument every row is one."""

    name = "count"
    functions = frozenset({"count"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function in cls.functions and len(types) <= 1

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"count": (np.int64, 0)}

    def add(self, state: State, values: Values) -> None:
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.add.at(state["count"], at, other["count"])

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        return pa.array(state["count"]).cast(type_.to_arrow())
