"""Comparisons of an attribute with constants, in the few forms that the shared pass understands.

For types without values between two neighbours, `a > c` is `a >= next(c)`. So `<` and `>=` are enough, and factors of
equal meaning are equal. Equality is a list of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.expr.expression import Call, Expr, Literal
from penstock.functions.values import literal_scalar

LT, GE, IN, NOT_IN = range(4)
OPPOSITE = {LT: GE, GE: LT, IN: NOT_IN, NOT_IN: IN}

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_NUMERIC = ("INT", "BIGINT", "DOUBLE", "TIMESTAMP")
_GREATEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """`attribute code constants`; NULL where the attribute is. Constants are plain numbers or texts, ascending.

    `<` and `>=` have one constant. A list may be empty: then IN never holds, and NOT IN wherever there is a value.
    """

    attribute: Expr
    code: int
    constants: tuple[Any, ...]

    def opposite(self) -> Comparison:
        return Comparison(self.attribute, OPPOSITE[self.code], self.constants)


def as_comparison(expr: Call) -> Comparison | None:
    """A comparison or a list of constants as the shared pass sees it; None where it cannot.

    NULL and NaN among the constants follow rules of their own and are left to the evaluator.
    """
    if expr.operation == "in":
        attribute, options, operation = expr.arguments[0], expr.arguments[1:], "eq"
    elif expr.operation in _FLIPPED:
        left, right = expr.arguments
        operation = expr.operation
        if isinstance(left, Literal):
            left, right, operation = right, left, _FLIPPED[operation]
        attribute, options = left, (right,)
    else:
        return None
    kind = attribute.type.kind
    if isinstance(attribute, Literal) or (kind not in _NUMERIC and not (kind == "TEXT" and operation in ("eq", "ne"))):
        return None
    constants = []
    for option in options:
        if not isinstance(option, Literal) or option.type != attribute.type or option.value is None:
            return None
        constants.append(_plain(option))
        if constants[-1] != constants[-1]:
            return None
    if operation in ("eq", "ne"):
        return Comparison(attribute, IN if operation == "eq" else NOT_IN, tuple(sorted(set(constants))))
    constant = constants[0]
    if operation in ("gt", "le"):
        constant = _next(constant)
        if constant is None:
            return None
    return Comparison(attribute, LT if operation in ("lt", "le") else GE, (constant,))


def _plain(literal: Literal) -> Any:
    kind, value = literal.type.kind, literal.value
    if kind in ("INT", "BIGINT") and type(value) is int:
        return value
    if kind == "DOUBLE" and type(value) is float:
        return value + 0.0  # -0.0 is 0.0
    scalar = literal_scalar(literal)
    if pa.types.is_timestamp(scalar.type):
        return scalar.value
    return scalar.as_py() + 0.0 if kind == "DOUBLE" else scalar.as_py()


def _next(constant: Any) -> Any:
    """The least value above it; None where only NaN or nothing is."""
    if isinstance(constant, float):
        return math.nextafter(constant, math.inf) if constant < math.inf else None
    return constant + 1 if constant < _GREATEST else None
