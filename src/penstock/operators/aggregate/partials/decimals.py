"""SUM of DECIMAL: exact, in limbs of 32 bits."""

from __future__ import annotations

from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.types import Type

_LIMBS = ("limb0", "limb1", "limb2", "limb3")
_EXACT = Context(prec=60)


class DecimalTotal(Partial):
    """The digits without the point, as four limbs: all but the last are between 0 and 2^32, whatever was added."""

    name = "decimals"
    functions = frozenset({"sum"})

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return function in cls.functions and len(types) == 1 and types[0].kind == "DECIMAL"

    def fields(self) -> dict[str, tuple[Any, Any]]:
        return {"count": (np.int64, 0), **dict.fromkeys(_LIMBS, (np.int64, 0))}

    def convert(self, values: pa.Array) -> Numbers:
        """One line of limbs per value."""
        wide = values.cast(pa.decimal128(38, values.type.scale)).fill_null(Decimal(0))
        raw = np.frombuffer(wide.buffers()[1], np.uint32).reshape(-1, 4)[wide.offset : wide.offset + len(wide)]
        limbs: Numbers = raw.astype(np.int64)
        limbs[:, 3] = raw[:, 3].astype(np.int32)  # the sign is in the last
        return limbs

    def add(self, state: State, values: Values) -> None:
        (limbs,) = values.numbers
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))
        for place, name in enumerate(_LIMBS):
            np.add.at(state[name], values.cells, limbs[:, place])
        _carry(state)

    def merge(self, state: State, at: Ints, other: State) -> None:
        for name in ("count", *_LIMBS):
            np.add.at(state[name], at, other[name])
        _carry(state)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        most = 10**type_.precision
        digits = [
            sum(limb << (32 * place) for place, limb in enumerate(limbs))
            for limbs in zip(*(state[name].tolist() for name in _LIMBS), strict=True)
        ]
        # A sum with too many digits for its type has no value, as in Spark.
        found = [
            Decimal(d).scaleb(-type_.scale, _EXACT) if n and -most < d < most else None
            for n, d in zip(state["count"].tolist(), digits, strict=True)
        ]
        return pa.array(found, type_.to_arrow())


def _carry(state: State) -> None:
    for low, high in pairwise(_LIMBS):
        state[high] += state[low] >> 32
        state[low] &= 0xFFFFFFFF
