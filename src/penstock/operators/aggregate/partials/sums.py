"""COUNT, SUM, AVG, VARIANCE, STDDEV, CORR and COVAR: sums that do not depend on the order of the rows."""

from __future__ import annotations

from decimal import Context, Decimal
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.operators.aggregate.partials.base import Ints, Numbers, Partial, State, Values
from penstock.operators.aggregate.partials.double_double import (
    Floats,
    add_pairs,
    add_products,
    add_rows,
    product_of_sums,
)
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


class DoubleSums(Partial):
    """Sums in twice the precision of a double, so that the order of the rows leaves no trace, and the number of rows.

    `sums` are their names; each is a pair of fields, high and low.
    """

    sums: ClassVar[tuple[str, ...]]

    def fields(self) -> dict[str, tuple[Any, Any]]:
        pairs = [name + part for name in self.sums for part in ("high", "low")]
        return {"count": (np.int64, 0), **dict.fromkeys(pairs, (np.float64, 0.0))}

    def merge(self, state: State, at: Ints, other: State) -> None:
        np.add.at(state["count"], at, other["count"])
        for name in self.sums:
            add_pairs(*_pair(state, name), at, *_pair(other, name))


def _pair(state: State, name: str) -> tuple[Numbers, Numbers]:
    return state[name + "high"], state[name + "low"]


class Total(DoubleSums):
    """A sum: of doubles in twice their precision, of whole numbers exactly and wrapping around, as Spark's does."""

    name = "total"
    functions = frozenset({"sum", "avg"})
    sums = ("",)

    def fields(self) -> dict[str, tuple[Any, Any]]:
        # A mean does not wrap around, so both are kept.
        return {**super().fields(), "whole": (np.int64, 0)} if self.whole else super().fields()

    def add(self, state: State, values: Values) -> None:
        (numbers,) = values.numbers
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))
        add_rows(state["high"], state["low"], values.cells, numbers.astype(np.float64, copy=False))
        if self.whole:
            np.add.at(state["whole"], values.cells, numbers)

    def merge(self, state: State, at: Ints, other: State) -> None:
        super().merge(state, at, other)
        if self.whole:
            np.add.at(state["whole"], at, other["whole"])

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        none = state["count"] == 0
        if function == "avg":
            means = (state["high"] + state["low"]) / np.maximum(state["count"], 1)
            return pa.array(means, mask=none)
        sums = state["whole"] if self.whole else state["high"] + state["low"]
        return pa.array(sums, mask=none).cast(type_.to_arrow())


class Moments(DoubleSums):
    """Sums of values and of their squares.

    So much is left of their difference that the variance is as good as one in two passes, unless the mean is more than
    10^14 standard deviations away from 0.
    """

    name = "moments"
    functions = frozenset({"var_samp", "var_pop", "stddev_samp", "stddev_pop"})
    sums = ("", "square_")

    def add(self, state: State, values: Values) -> None:
        numbers = values.numbers[0].astype(np.float64, copy=False)
        state["count"] += np.bincount(values.cells, minlength=len(state["count"]))
        add_rows(*_pair(state, ""), values.cells, numbers)
        add_products(*_pair(state, "square_"), values.cells, numbers, numbers)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        count, sums = state["count"], _pair(state, "")
        about = product_of_sums(count, _pair(state, "square_"), sums, sums)
        least = 2 if function.endswith("_samp") else 1
        divisor = np.maximum(count - (least - 1), 1).astype(np.float64)
        spread: Floats = np.maximum(about, 0.0) / divisor
        spread = np.where(np.isnan(about), np.nan, spread)
        values = np.sqrt(spread) if function.startswith("stddev") else spread
        return pa.array(values, mask=count < least)


class Pairs(DoubleSums):
    """Sums of two arguments, their squares and products, over rows that have both."""

    name = "pairs"
    functions = frozenset({"corr", "covar_samp", "covar_pop"})
    sums = ("x_", "y_", "xx_", "yy_", "xy_")

    @classmethod
    def takes(cls, function: str, types: tuple[Type, ...]) -> bool:
        return super().takes(function, types) and len(types) == 2

    def add(self, state: State, values: Values) -> None:
        x, y = (numbers.astype(np.float64, copy=False) for numbers in values.numbers)
        at = values.cells
        state["count"] += np.bincount(at, minlength=len(state["count"]))
        for name, numbers in (("x_", x), ("y_", y)):
            add_rows(*_pair(state, name), at, numbers)
        for name, one, two in (("xx_", x, x), ("yy_", y, y), ("xy_", x, y)):
            add_products(*_pair(state, name), at, one, two)

    def finish(self, function: str, state: State, type_: Type, parameter: Any = None) -> pa.Array:
        count = state["count"]
        together = _about_means(state, "x", "y")
        if function == "corr":
            spread = np.maximum(_about_means(state, "x", "x"), 0.0) * np.maximum(_about_means(state, "y", "y"), 0.0)
            with np.errstate(invalid="ignore", divide="ignore"):
                values = together / np.sqrt(spread)
            # Where one of them does not vary there is no correlation.
            return pa.array(np.clip(values, -1.0, 1.0), mask=(count < 1) | (spread == 0), from_pandas=False)
        least = 2 if function == "covar_samp" else 1
        return pa.array(together / np.maximum(count - (least - 1), 1), mask=count < least, from_pandas=False)


def _about_means(state: State, one: str, two: str) -> Floats:
    products = _pair(state, f"{one}{two}_")
    return product_of_sums(state["count"], products, _pair(state, f"{one}_"), _pair(state, f"{two}_"))


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
