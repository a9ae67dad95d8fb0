"""Normal forms of predicates: many predicates with the same meaning have equal normal forms.

Only where a predicate is true matters to a query. NOT is pushed down to the factors by De Morgan's rules, which hold in
three-valued logic; what is left is AND and OR of factors, and "is it true" of an AND or OR follows from "is it true" of
its parts. So NULL needs no second bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.expr.expression import Call, Expr, Literal
from penstock.functions.values import literal_scalar
from penstock.types import BOOLEAN

LT, GE, IN, NOT_IN = range(4)
OPPOSITE = {LT: GE, GE: LT, IN: NOT_IN, NOT_IN: IN}

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_NUMERIC = ("INT", "BIGINT", "DOUBLE", "TIMESTAMP")
_GREATEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """`attribute code constants`; NULL where the attribute is. Constants are plain numbers or texts, ascending.

    For types without values between two neighbours, `a > c` is `a >= next(c)`. So `<` and `>=` are enough, which have one
    constant, and factors of equal meaning are equal. Equality is a list of one. A list may be empty: then IN never holds,
    and NOT IN wherever there is a value.
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


@dataclass(frozen=True, slots=True)
class Both:
    """True where all parts are; never of one part, and none is a Both. Of no part: always true."""

    parts: frozenset[Term]


@dataclass(frozen=True, slots=True)
class Either:
    """True where some part is; never of one part, and none is an Either. Of no part: never true."""

    parts: frozenset[Term]


Factor: TypeAlias = Comparison | Expr
Term: TypeAlias = Factor | Both | Either

ALWAYS = Both(frozenset())
NEVER = Either(frozenset())


def normal_form(expr: Expr | None) -> Term:
    """The term that is true where the predicate is; equal for many predicates of equal meaning."""
    return ALWAYS if expr is None else _term(expr, wanted=True) if _depth_fits(expr) else expr


def _depth_fits(expr: Expr, left: int = 100) -> bool:
    """Whether the nesting is shallow enough for recursion; a deeper predicate is one factor as it stands."""
    if not isinstance(expr, Call) or expr.operation not in ("and", "or", "not"):
        return True
    return left > 0 and all(_depth_fits(a, left - 1) for a in _parts(expr))


def _parts(expr: Call) -> list[Expr]:
    """The arguments of an AND of ANDs, an OR of ORs: a long chain is wide, not deep."""
    found: list[Expr] = []
    waiting = list(expr.arguments)
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.operation == expr.operation != "not":
            waiting += part.arguments
        else:
            found.append(part)
    return found


def _term(expr: Expr, wanted: bool) -> Term:
    """The term that is true where the expression is true, or where it is false."""
    if isinstance(expr, Literal):
        return ALWAYS if expr.value is not None and bool(expr.value) == wanted else NEVER
    if isinstance(expr, Call):
        match expr.operation:
            case "and" | "or":
                combine = both if (expr.operation == "and") == wanted else either
                return combine(_term(a, wanted) for a in _parts(expr))
            case "not":
                return _term(expr.arguments[0], not wanted)
            case "same" if (written := _written_out(expr)) is not None:
                return _term(written, wanted)
            case "in" if wanted:
                # A NULL among the options only ever turns "no" into "unknown".
                options = tuple(o for o in expr.arguments[1:] if not _is_null(o))
                if not options:
                    return NEVER
                expr = Call("in", (expr.arguments[0], *options), BOOLEAN)
            case "in" | "eq" | "ne" | "lt" | "le" | "gt" | "ge":
                if any(_is_null(a) for a in expr.arguments):
                    return NEVER
        found = as_comparison(expr)
        if found is not None:
            return found if wanted else found.opposite()
    return expr if wanted else Call("not", (expr,), BOOLEAN)


def _written_out(expr: Call) -> Expr | None:
    """`a IS NOT DISTINCT FROM` a constant by the factors that others share; None where it is no constant."""
    value, other = expr.arguments
    if isinstance(value, Literal):
        value, other = other, value
    if not isinstance(other, Literal):
        return None
    missing = Call("is_null", (value,), BOOLEAN)
    if other.value is None:
        return missing
    return Call("and", (Call("not", (missing,), BOOLEAN), Call("eq", (value, other), BOOLEAN)), BOOLEAN)


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def both(terms: Iterable[Term]) -> Term:
    """The AND of terms: flat, without repeats, comparisons of one attribute drawn together, x AND (x OR y) as x."""
    parts: set[Term] = set()
    compared: dict[Expr, list[Comparison]] = {}
    for term in terms:
        for part in term.parts if isinstance(term, Both) else (term,):
            if isinstance(part, Comparison):
                compared.setdefault(part.attribute, []).append(part)
            else:
                parts.add(part)
    for attribute, comparisons in compared.items():
        # A comparison that is true implies that there is a value.
        parts.discard(Call("not", (Call("is_null", (attribute,), BOOLEAN),), BOOLEAN))
        drawn = comparisons if len(comparisons) == 1 else _all_hold(attribute, comparisons)
        if drawn is None:
            return NEVER
        parts.update(drawn)
    if NEVER in parts:
        return NEVER
    if any(isinstance(p, Either) for p in parts):
        parts = {p for p in parts if not (isinstance(p, Either) and not parts.isdisjoint(p.parts))}
    return next(iter(parts)) if len(parts) == 1 else Both(frozenset(parts))


def either(terms: Iterable[Term]) -> Term:
    """The OR of terms: flat, without repeats, lists of one attribute as one list, x OR (x AND y) as x."""
    parts: set[Term] = set()
    lists: dict[Expr, set[Any]] = {}
    for term in terms:
        for part in term.parts if isinstance(term, Either) else (term,):
            if isinstance(part, Comparison) and part.code == IN:
                lists.setdefault(part.attribute, set()).update(part.constants)
            else:
                parts.add(part)
    parts.update(Comparison(attribute, IN, tuple(sorted(options))) for attribute, options in lists.items())
    if ALWAYS in parts:
        return ALWAYS
    if any(isinstance(p, Both) for p in parts):
        parts = {p for p in parts if not (isinstance(p, Both) and not parts.isdisjoint(p.parts))}
    return next(iter(parts)) if len(parts) == 1 else Either(frozenset(parts))


def _all_hold(attribute: Expr, comparisons: list[Comparison]) -> list[Comparison] | None:
    """Comparisons of one attribute as the fewest equivalent ones; None where they exclude each other."""
    low = max((c.constants[0] for c in comparisons if c.code == GE), default=None)
    high = min((c.constants[0] for c in comparisons if c.code == LT), default=None)

    def inside(value: Any) -> bool:
        return (low is None or value >= low) and (high is None or value < high)

    listed = [set(c.constants) for c in comparisons if c.code == IN]
    banned = {constant for c in comparisons if c.code == NOT_IN for constant in c.constants if inside(constant)}
    if listed:
        left = {constant for constant in set.intersection(*listed) - banned if inside(constant)}
        return [Comparison(attribute, IN, tuple(sorted(left)))] if left else None
    if low is not None and high is not None:
        if low >= high:
            return None
        if isinstance(low, int) and high == low + 1:
            return None if banned else [Comparison(attribute, IN, (low,))]
    found = [Comparison(attribute, code, (c,)) for code, c in ((GE, low), (LT, high)) if c is not None]
    return [*found, Comparison(attribute, NOT_IN, tuple(sorted(banned)))] if banned or not found else found
