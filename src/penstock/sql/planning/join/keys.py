"""Equalities between streams -> join keys: classes of expressions that every combination has equal.

A class with an expression of every input is the key of the join; one that leaves inputs out is a partial key: it serves to
look up those that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from penstock.expr.expression import Call, Expr, Literal, calls_user, columns_of, with_columns
from penstock.sql.plan import JoinPlan
from penstock.types import BIGINT, BOOLEAN, INT

_KEY_KINDS = {"INT", "BIGINT", "DOUBLE", "DECIMAL", "BOOLEAN", "TEXT", "TIMESTAMP", "BINARY"}


@dataclass(frozen=True, slots=True)
class EqualitySide:
    """One side of an equality: an expression over one input, in that input's own column names."""

    input: int
    expr: Expr


Equality = tuple[EqualitySide, EqualitySide]


def usable(equality: Equality) -> bool:
    """Whether a key may have these values: plain ones, from two different inputs."""
    left, right = equality
    return left.input != right.input and left.expr.type.kind in _KEY_KINDS


# What stands for NULL beside "is it NULL?"; any value does.
_FILLERS = {"INT": 0, "BIGINT": 0, "DOUBLE": 0.0, "DECIMAL": "0", "BOOLEAN": False, "TEXT": "", "TIMESTAMP": 0}


def never_null(equality: Equality) -> tuple[Equality, ...]:
    """IS NOT DISTINCT FROM as equalities of values that are never NULL: both are NULL or neither is, and else they are equal.

    Nothing where no value can stand for NULL.
    """
    left, right = equality
    if left.expr.type.kind not in _FILLERS or left.expr.type != right.expr.type:
        return ()
    filler = Literal(_FILLERS[left.expr.type.kind], left.expr.type)
    missing = [EqualitySide(side.input, Call("is_null", (side.expr,), BOOLEAN)) for side in equality]
    filled = [EqualitySide(side.input, Call("coalesce", (side.expr, filler), side.expr.type)) for side in equality]
    return (missing[0], missing[1]), (filled[0], filled[1])


def equal_classes(equalities: Iterable[Equality], inputs: int) -> list[tuple[tuple[Expr, ...], ...]]:
    """The classes that have an expression of every input: per class and input, its expressions in order.

    Equality is transitive: a.k = b.k and b.k = c.k make one class of three.
    """
    spanning = [c for c in _classes(equalities) if len({side.input for side in c}) == inputs]
    return [tuple(tuple(_typed_alike(c, i)) for i in range(inputs)) for c in spanning]


def _classes(equalities: Iterable[Equality]) -> list[list[EqualitySide]]:
    classes: list[list[EqualitySide]] = []
    for left, right in equalities:
        sides = [_narrowed(left), _narrowed(right)]
        touched = [c for c in classes if any(side in c for side in sides)]
        merged = list(dict.fromkeys([*(side for c in touched for side in c), *sides]))
        place = classes.index(touched[0]) if touched else len(classes)
        classes = [c for c in classes if c not in touched]
        classes.insert(place, merged)
    return classes


def in_class(equality: Equality, classes: list[tuple[tuple[Expr, ...], ...]]) -> bool:
    """Whether an equality holds because of the keys that the classes become."""
    side = _narrowed(equality[0])
    return any(side.expr in [_narrowed(EqualitySide(side.input, e)).expr for e in c[side.input]] for c in classes)


def _narrowed(side: EqualitySide) -> EqualitySide:
    """Without a cast from INT to BIGINT, which changes no equality; so a chain of both types stays one class."""
    match side.expr:
        case Call("cast", (value,), type_) if type_ == BIGINT and value.type == INT:
            return EqualitySide(side.input, value)
    return side


def _typed_alike(members: list[EqualitySide], place: int) -> list[Expr]:
    wide = any(side.expr.type == BIGINT for side in members)
    own = [side.expr for side in members if side.input == place]
    return [Call("cast", (e,), BIGINT) if wide and e.type == INT else e for e in own]


@dataclass(frozen=True, slots=True)
class PartialKey:
    """What links some inputs: by input its key, nothing where it is left out, and the conditions that say so.

    `implied` are those that equal keys make true; others compare a second expression of the same input.
    """

    by_input: tuple[tuple[Expr, ...], ...]
    conditions: tuple[Expr, ...]
    implied: tuple[Expr, ...]


def partial_keys(plan: JoinPlan) -> list[PartialKey]:
    """The partial keys of a join that has no key for all of its inputs, unless a hint says otherwise."""
    if plan.inputs[0].keys or plan.missing != "inner" or plan.algorithm not in (None, "sorted_runs", "per_side"):
        return []
    aliases = [i.alias for i in plan.inputs]
    found = [(c, e) for c in plan.conditions if (e := _between_two(c, aliases)) is not None]
    together: dict[frozenset[int], list[list[EqualitySide]]] = {}
    for one in _classes(e for _, e in found):
        together.setdefault(frozenset(side.input for side in one), []).append(one)
    out = []
    for classes in together.values():
        sides = {_narrowed(side) for one in classes for side in one}
        firsts = {next(s for s in one if s.input == place) for one in classes for place in {s.input for s in one}}
        mine = [(c, {_narrowed(side) for side in e}) for c, e in found if _narrowed(e[0]) in sides]
        by_input = tuple(
            tuple(_typed_alike(one, place)[0] for one in classes if any(s.input == place for s in one))
            for place in range(len(aliases))
        )
        out.append(PartialKey(by_input, tuple(c for c, _ in mine), tuple(c for c, both in mine if both <= firsts)))
    return out


def is_looked_up(plan: JoinPlan) -> bool:
    """Whether equalities lead from every input to every other, so that nothing is scanned."""
    if plan.inputs[0].keys:
        return plan.algorithm != "scan"
    reached = {0}
    sets = [{place for place, own in enumerate(key.by_input) if own} for key in partial_keys(plan)]
    for _ in sets:
        reached |= set().union(*(s for s in sets if s & reached))
    return len(reached) == len(plan.inputs)


def _between_two(condition: Expr, aliases: Sequence[str]) -> Equality | None:
    """A condition over whole combinations as an equality between two inputs, where it is one."""
    match condition:
        case Call("eq", (left, right)) if not calls_user(condition):
            owners = [{name.partition(".")[0] for name in columns_of(side)} for side in (left, right)]
            if all(len(o) == 1 and o <= set(aliases) for o in owners):
                equality = (
                    EqualitySide(aliases.index(next(iter(owners[0]))), _own(left)),
                    EqualitySide(aliases.index(next(iter(owners[1]))), _own(right)),
                )
                return equality if usable(equality) and left.type == right.type else None
    return None


def _own(expr: Expr) -> Expr:
    """An expression of one input in that input's own column names."""
    return with_columns(expr, lambda column: replace(column, name=column.name.partition(".")[2]))
