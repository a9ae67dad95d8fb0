"""Conditions that are equal up to constants: their common shape, and the weakest condition that all of them imply.

a.v > 3, a.v > 5            a.v > 3
a.k = 1, a.k IN (2, 3)      a.k IN (1, 2, 3)
a.v < b.v + 1, .. + 2       a.v < b.v + 2
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeGuard

from penstock.expr.expression import Call, Expr, Literal, UserCall
from penstock.types import BOOLEAN, DOUBLE

FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_ORDERED = ("INT", "BIGINT", "DOUBLE", "TIMESTAMP")
# More alternatives than this are not tested one after the other: callers refine the result anyway.
MOST_ALTERNATIVES = 8


def all_of(parts: Sequence[Expr]) -> Expr | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Call("and", tuple(parts), BOOLEAN)


def shape(expr: Expr) -> Hashable:
    """Equal for expressions that differ in constants only; lists of any length are alike, equality is a list of one."""
    match expr:
        case Literal(_, type_):
            return "?", str(type_)
        case Call("eq", (value, Literal())) | Call("in", (value, *_)) if _is_listed(expr):
            return "in", shape(value)
        case Call(operation, arguments, type_):
            return operation, str(type_), tuple(shape(a) for a in arguments)
        case UserCall(function, arguments, type_):
            return "call", function, str(type_), tuple(shape(a) for a in arguments)
    return expr


def by_shape(parts: Iterable[Expr]) -> list[Expr]:
    """Conjuncts in an order that is the same for all that have equal shapes."""
    return sorted(parts, key=lambda part: (repr(shape(part)), repr(part)))


def weakest(alike: Sequence[Expr]) -> Expr | None:
    """A condition that each of these implies, all of one shape; None where nothing but TRUE is known."""
    distinct = list(dict.fromkeys(alike))
    if len(distinct) == 1:
        return distinct[0]
    listed = [each for each in distinct if _is_listed(each)]
    # What is listed may have constants of its own: n % 2 = 1, n % 3 = 1.
    if len(listed) == len(distinct) and len({each.arguments[0] for each in listed}) == 1:
        options = dict.fromkeys(option for each in listed for option in each.arguments[1:])
        return Call("in", (listed[0].arguments[0], *options), BOOLEAN)
    found = [open_end(each) for each in distinct]
    ends = [end for end in found if end is not None]
    if len(ends) == len(distinct) and len({frame for frame, _, _ in ends}) == 1:
        upwards = ends[0][2]
        chosen = max(range(len(ends)), key=lambda i: ends[i][1] if upwards else -ends[i][1])
        return distinct[chosen]
    return Call("or", tuple(distinct), BOOLEAN) if len(distinct) <= MOST_ALTERNATIVES else None


def open_end(expr: Expr) -> tuple[Expr, float, bool] | None:
    """A comparison with one constant that only makes it weaker or stronger.

    (the comparison with 0 in the constant's place, the constant, whether a larger one is true more often)
    """
    if not isinstance(expr, Call) or expr.operation not in FLIPPED:
        return None
    left, right = expr.arguments
    for place, side in ((1, right), (0, left)):
        found = _rising(side)
        if found is not None:
            frame, value, rises = found
            more = (
                rises == (expr.operation in ("lt", "le")) if place == 1 else rises == (expr.operation in ("gt", "ge"))
            )
            arguments = (left, frame) if place == 1 else (frame, right)
            return replace(expr, arguments=arguments), value, more
    return None


def _rising(expr: Expr) -> tuple[Expr, float, bool] | None:
    """An expression by its one constant: with 0 in its place, the constant, and whether it rises with it.

    Sums of doubles never fall when a part rises, rounded or not; sums of integers wrap.
    """
    match expr:
        case Literal(value, type_) if type_.kind in _ORDERED and isinstance(value, int | float):
            return (replace(expr, value=0), value, True) if math.isfinite(value) else None
        case Call("cast", (Literal() as inner,), type_) if type_ == DOUBLE:
            found = _rising(inner)
            return None if found is None else (replace(expr, arguments=(found[0],)), *found[1:])
        case Call("add" | "sub" as operation, (a, b), type_) if type_ == DOUBLE:
            found = _rising(b)
            if found is not None:
                return replace(expr, arguments=(a, found[0])), found[1], found[2] == (operation == "add")
            found = _rising(a)
            if found is not None:
                return replace(expr, arguments=(found[0], b)), *found[1:]
    return None


def _is_listed(expr: Expr) -> TypeGuard[Call]:
    if not isinstance(expr, Call) or expr.operation not in ("eq", "in"):
        return False
    value, *options = expr.arguments
    return not isinstance(value, Literal) and all(isinstance(o, Literal) and o.value is not None for o in options)
