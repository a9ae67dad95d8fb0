"""Equalities between streams -> join keys: classes of expressions that every combination has equal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.operators.expr import Call, Expr
from penstock.types import BIGINT, INT

_KEY_KINDS = {"INT", "BIGINT", "DOUBLE", "DECIMAL", "BOOLEAN", "TEXT", "TIMESTAMP", "BINARY"}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an equality: an expression over one input, in that input's own column names."""

    input: int
    expr: Expr


Equality = tuple[Side, Side]


def usable(equality: Equality) -> bool:
    """Whether a key may have these values: plain ones, from two different inputs."""
    left, right = equality
    return left.input != right.input and left.expr.type.kind in _KEY_KINDS


def equal_classes(equalities: Iterable[Equality], inputs: int) -> list[tuple[tuple[Expr, ...], ...]]:
    """The classes that have an expression of every input: per class and input, its expressions in order.

    Equality is transitive: a.k = b.k and b.k = c.k make one class of three.
    """
    classes: list[list[Side]] = []
    for left, right in equalities:
        sides = [_narrowed(left), _narrowed(right)]
        touched = [c for c in classes if any(side in c for side in sides)]
        merged = list(dict.fromkeys([*(side for c in touched for side in c), *sides]))
        place = classes.index(touched[0]) if touched else len(classes)
        classes = [c for c in classes if c not in touched]
        classes.insert(place, merged)
    spanning = [c for c in classes if len({side.input for side in c}) == inputs]
    return [tuple(tuple(_typed_alike(c, i)) for i in range(inputs)) for c in spanning]


def in_class(equality: Equality, classes: list[tuple[tuple[Expr, ...], ...]]) -> bool:
    """Whether an equality holds because of the keys that the classes become."""
    side = _narrowed(equality[0])
    return any(side.expr in [_narrowed(Side(side.input, e)).expr for e in c[side.input]] for c in classes)


def _narrowed(side: Side) -> Side:
    """Without a cast from INT to BIGINT, which changes no equality; so a chain of both types stays one class."""
    match side.expr:
        case Call("cast", (value,), type_) if type_ == BIGINT and value.type == INT:
            return Side(side.input, value)
    return side


def _typed_alike(members: list[Side], place: int) -> list[Expr]:
    wide = any(side.expr.type == BIGINT for side in members)
    own = [side.expr for side in members if side.input == place]
    return [Call("cast", (e,), BIGINT) if wide and e.type == INT else e for e in own]
