"""COUNT, SUM, AVG, VARIANCE, STDDEV, CORR and COVAR: sums that do not depend on the order of the rows."""

from __future__ import annotations

from decimal import Context, Decimal
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.kernel import kernel
from penstock.operators.aggregate.partials.base import ALL_KINDS, Ints, Numbers, Partial, State, Values
from penstock.types import Type

Floats = npt.NDArray[np.float64]
Pair = tuple[Floats, Floats]
# Cuts a double into two halves of 26 bits.
_HALVES = 134217729.0
_RESOLUTION = 2.0**-102
_LIMBS = ("limb0", "limb1", "limb2", "limb3")
_EXACT = Context(prec=60)


class Count(Partial):
    """How many values there are. Without an argument every row is one."""

    name = "count"
    functions = frozenset({"count"})
    kinds = ALL_KINDS
    arguments = (0, 1)

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
    arguments = (2,)
    sums = ("x_", "y_", "xx_", "yy_", "xy_")

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
            # Of one row, or where one of them does not vary, there is no correlation.
            return pa.array(np.clip(values, -1.0, 1.0), mask=(count < 2) | (spread == 0), from_pandas=False)
        least = 2 if function == "covar_samp" else 1
        return pa.array(together / np.maximum(count - (least - 1), 1), mask=count < least, from_pandas=False)


def _about_means(state: State, one: str, two: str) -> Floats:
    products = _pair(state, f"{one}{two}_")
    return product_of_sums(state["count"], products, _pair(state, f"{one}_"), _pair(state, f"{two}_"))


class DecimalTotal(Partial):
    """The digits without the point, as four limbs: all but the last are between 0 and 2^32, whatever was added."""

    name = "decimals"
    functions = frozenset({"sum"})
    kinds = frozenset({"DECIMAL"})

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


# A number is a pair high + low. Adding is Knuth's and Dekker's error-free transformation; about 106 bits survive.


@kernel
def added(high: float, low: float, more_high: float, more_low: float) -> tuple[float, float]:
    """The sum of two pairs, as a pair."""
    total = high + more_high
    if not np.isfinite(total):
        return total, 0.0
    rest = total - high
    error = (high - (total - rest)) + (more_high - rest)
    error += low + more_low
    near = total + error
    return near, error - (near - total)


@kernel
def product(a: float, b: float) -> tuple[float, float]:
    """a * b as a pair."""
    near = a * b
    if not np.isfinite(near) or abs(a) > 1e150 or abs(b) > 1e150:
        return near, 0.0
    cut = _HALVES * a
    a_high = cut - (cut - a)
    a_low = a - a_high
    cut = _HALVES * b
    b_high = cut - (cut - b)
    b_low = b - b_high
    return near, ((a_high * b_high - near) + a_high * b_low + a_low * b_high) + a_low * b_low


@kernel
def add_rows(high: Floats, low: Floats, at: Ints, numbers: Floats) -> None:
    for i in range(len(at)):
        c = at[i]
        high[c], low[c] = added(high[c], low[c], numbers[i], 0.0)


@kernel
def add_products(high: Floats, low: Floats, at: Ints, a: Floats, b: Floats) -> None:
    for i in range(len(at)):
        c = at[i]
        near, rest = product(a[i], b[i])
        high[c], low[c] = added(high[c], low[c], near, rest)


@kernel
def add_pairs(high: Floats, low: Floats, at: Ints, more_high: Floats, more_low: Floats) -> None:
    for i in range(len(at)):
        c = at[i]
        high[c], low[c] = added(high[c], low[c], more_high[i], more_low[i])


@kernel
def _times(a_high: float, a_low: float, b_high: float, b_low: float) -> tuple[float, float]:
    """The product of two pairs."""
    near, rest = product(a_high, b_high)
    if not np.isfinite(near):
        return near, 0.0
    rest += a_high * b_low + a_low * b_high
    high = near + rest
    return high, rest - (high - near)


@kernel
def _over(high: float, low: float, divisor: float) -> tuple[float, float]:
    """A pair divided by a number."""
    near = high / divisor
    if not np.isfinite(near):
        return near, 0.0
    back, rest = product(near, divisor)
    left_high, left_low = added(high, low, -back, -rest)
    more = (left_high + left_low) / divisor
    total = near + more
    return total, more - (total - near)


@kernel
def product_of_sums(count: Ints, products: Pair, x: Pair, y: Pair) -> Floats:
    """Per cell the sum of products about the means, from the sum of products and both sums: s - x * y / n.

    Each sum is a pair of arrays, high and low. What is no more than the rounding of so many sums is 0.
    """
    high, low = products
    x_high, x_low = x
    y_high, y_low = y
    out = np.zeros(len(count))
    for i in range(len(count)):
        if count[i] == 0:
            continue
        times_high, times_low = _times(x_high[i], x_low[i], y_high[i], y_low[i])
        mean_high, mean_low = _over(times_high, times_low, float(count[i]))
        left_high, left_low = added(high[i], low[i], -mean_high, -mean_low)
        about = left_high + left_low
        if not abs(about) <= count[i] * _RESOLUTION * abs(high[i]):
            out[i] = about
    return out
