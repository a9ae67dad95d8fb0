"""Totals of some rows: their number, the number of values, their sum, the smallest and the largest.

Sums lose nothing on the way. Doubles carry what rounding cut off beside the sum, so that a large value that comes does
not swallow small ones; integers are added as an upper and a lower half, so that no sum of them runs over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["integer", "double"]
HALF = 32


@dataclass(frozen=True, slots=True)
class Totals:
    """`upper` and `lower` are a double's sum and its rest, or the sums of an integer's two halves.

    `least` and `greatest` mean something only where `count` is not 0. NaN is larger than any other double.
    """

    kind: Kind
    rows: int = 0
    count: int = 0
    upper: float | int = 0
    lower: float | int = 0
    least: float | int = 0
    greatest: float | int = 0

    def with_more(self, other: Totals) -> Totals:
        """Of both sets of rows together."""
        rows = self.rows + other.rows
        if not self.count or not other.count:
            known = self if self.count else other
            return Totals(self.kind, rows, known.count, known.upper, known.lower, known.least, known.greatest)
        upper, rest = self.upper + other.upper, self.lower + other.lower
        if self.kind == "double":
            rest += _cut_off(self.upper, other.upper, upper)
        least, greatest = _smaller(self.least, other.least), _larger(self.greatest, other.greatest)
        return Totals(self.kind, rows, self.count + other.count, upper, rest, least, greatest)

    @property
    def sum(self) -> float | int | None:
        """Integers exactly, however large; None of no values."""
        if not self.count:
            return None
        if self.kind == "integer":
            return (int(self.upper) << HALF) + int(self.lower)
        whole = float(self.upper + self.lower)
        # Beside an infinite sum the rest is NaN: infinity less infinity.
        return whole if math.isfinite(whole) else float(self.upper)

    @property
    def avg(self) -> float | None:
        total = self.sum
        return None if total is None else float(total) / self.count

    @property
    def min(self) -> float | int | None:
        return self.least if self.count else None

    @property
    def max(self) -> float | int | None:
        return self.greatest if self.count else None


def _cut_off(one: float, other: float, total: float) -> float:
    """What rounding lost of one + other."""
    part = total - one
    return (one - (total - part)) + (other - part)


def _smaller(one: float | int, other: float | int) -> float | int:
    return other if one != one or other < one else one


def _larger(one: float | int, other: float | int) -> float | int:
    return other if other != other or other > one else one
