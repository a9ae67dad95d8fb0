"""Composite probes: partners of a tuple for many inequalities x op y + c at once, whatever their constants.

y + c never falls when y or c rises, rounded or not. So with constants in order, each pair (x, y) satisfies all of them from
one place on, its rank; and with partners in order, each constant has its partners from one place on. One search finds either,
where separate probes compare once per constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.expr.evaluate import Columns, evaluate
from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.scan import as_doubles
from penstock.operators.join.kernels.weakest import open_end
from penstock.operators.join.papers.sides import Float64s
from penstock.types import BIGINT, BOOLEAN, DOUBLE

_PLUS, _MINUS, _FROM = range(3)  # y + c, y - c, c - y
_FLIPPED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}


@dataclass(frozen=True, slots=True)
class Inequality:
    """`fixed` against `moved` by a constant: which is the smaller side, whether they may be equal, how the constant moves."""

    fixed: Expr
    moved: Expr
    moved_is_larger: bool
    strict: bool
    form: int

    @property
    def rises(self) -> bool:
        """Whether a larger constant is true more often."""
        return (self.form != _MINUS) == self.moved_is_larger


def as_inequality(expr: Expr) -> tuple[Inequality, float] | None:
    """A comparison of doubles with a constant added to one side, and the constant; None for other expressions."""
    if not isinstance(expr, Call) or open_end(expr) is None:
        return None
    operation, (left, right) = expr.operation, expr.arguments
    found = _moved(right)
    if found is None:
        found, left, operation = _moved(left), right, _FLIPPED[operation]
    if found is None or left.type != DOUBLE:
        return None
    moved, form, constant = found
    return Inequality(left, moved, operation in ("lt", "le"), operation in ("lt", "gt"), form), constant


def _moved(expr: Expr) -> tuple[Expr, int, float] | None:
    match expr:
        case Call("add", (y, c), type_) if type_ == DOUBLE and (known := _constant(c)) is not None:
            return y, _PLUS, known
        case Call("add", (c, y), type_) if type_ == DOUBLE and (known := _constant(c)) is not None:
            return y, _PLUS, known
        case Call("sub", (y, c), type_) if type_ == DOUBLE and (known := _constant(c)) is not None:
            return y, _MINUS, known
        case Call("sub", (c, y), type_) if type_ == DOUBLE and (known := _constant(c)) is not None:
            return y, _FROM, known
    return None


def _constant(expr: Expr) -> float | None:
    match expr:
        case Literal(value, type_) if type_ == DOUBLE and isinstance(value, int | float) and np.isfinite(value):
            return float(value)
        case Call("cast", (Literal(value),), type_) if type_ == DOUBLE and isinstance(value, int | float):
            return float(value) if np.isfinite(value) else None
    return None


class RankedInequalities:
    """Inequalities that differ in their constants only, as one column of ranks and a comparison of it for each."""

    def __init__(self, name: str, inequality: Inequality, constants: Sequence[float]) -> None:
        self.column = Column(name, BIGINT)
        self._inequality = inequality
        # In the order in which they become true.
        self._constants = np.array(sorted(set(constants), reverse=not inequality.rises))
        self._places = {constant: place for place, constant in enumerate(self._constants.tolist())}

    def condition(self, constant: float) -> Expr:
        """True where the inequality with this constant is."""
        return Call("le", (self.column, Literal(self._places[constant], BIGINT)), BOOLEAN)

    def ranks(self, columns: Columns, rows: int) -> Ints:
        """How many of the constants each row does not satisfy."""
        one = self._inequality
        x, x_known = as_doubles(evaluate(one.fixed, columns, rows))
        y, y_known = as_doubles(evaluate(one.moved, columns, rows))
        found = _ranks(x, y, self._constants, one.form, one.moved_is_larger, one.strict)
        for known in (x_known, y_known):
            if known is not None:
                found[~known] = len(self._constants)
        return found


@kernel
def _ranks(x: Float64s, y: Float64s, constants: Float64s, form: int, moved_is_larger: bool, strict: bool) -> Ints:
    out = np.empty(len(x), np.int64)
    for i in range(len(x)):
        first, last = 0, len(constants)
        while first < last:
            middle = (first + last) >> 1
            if holds(x[i], y[i], constants[middle], form, moved_is_larger, strict):
                last = middle
            else:
                first = middle + 1
        out[i] = first
    return out


@kernel
def holds(x: float, y: float, c: float, form: int, moved_is_larger: bool, strict: bool) -> bool:
    """x against y moved by c; NaN is above every number and equals itself."""
    moved = y + c if form == 0 else (y - c if form == 1 else c - y)
    small, large = (x, moved) if moved_is_larger else (moved, x)
    if strict:
        return bool(small < large or (large != large and small == small))
    return bool(small <= large or large != large)
