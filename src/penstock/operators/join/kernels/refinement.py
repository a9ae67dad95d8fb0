"""Find each join's own combinations among those that many joins share, in one pass over the conditions that differ.

Conditions are evaluated over combinations as standing predicates are over a batch of rows: every distinct factor once, all
constants of one attribute together, and a member's answer is an AND of bit vectors.

Many inequalities x op y + c have one composite probe, whatever their constants: y + c never falls when y or c rises, rounded
or not. So with constants in order, each pair (x, y) satisfies all of them from one place on, its rank; one search finds it,
where separate probes compare once per constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pyarrow as pa

from penstock.expr.bits import Words, lowest_bit, words_for
from penstock.expr.evaluate import Columns, Functions, evaluate
from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.expr.factors import Selections
from penstock.expr.kernel import kernel
from penstock.expr.normal_form import ALWAYS, normal_form
from penstock.expr.slots import Masks
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.scan import as_doubles
from penstock.operators.join.kernels.step import Join
from penstock.operators.join.kernels.weakest import FLIPPED, all_of, open_end
from penstock.operators.join.papers.sides import Float64s
from penstock.types import BIGINT, BOOLEAN, DOUBLE

_PLUS, _MINUS, _FROM = range(3)  # y + c, y - c, c - y
Bound = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One join's conditions on the combinations, in the names of the shared join."""

    number: int
    bounds: Bound
    conditions: tuple[Expr, ...]


class Refinement:
    """Refines a shared join for all its members. Conditions that the shared join has tested are not tested again."""

    def __init__(self, shared: Join, tested: Sequence[Expr], members: Sequence[Member], functions: Functions) -> None:
        self._shared = shared
        self._selections = Selections(functions)
        self._everything: list[int] = []
        self._by_selection: dict[int, list[int]] = {}
        known: dict[object, int] = {}
        done = set(tested)
        self._ranked = _ranked([c for member in members for c in member.conditions if c not in done])
        for member in members:
            left = [self._as_rank(c) for c in member.conditions if c not in done]
            term = normal_form(all_of([*left, *_windows(shared.bounds, member.bounds)]))
            if term == ALWAYS:
                self._everything.append(member.number)
                continue
            if term not in known:
                known[term] = self._selections.add(term)
            self._by_selection.setdefault(known[term], []).append(member.number)
        self._chosen = np.array(list(self._by_selection), np.int64)
        self._pairs = sorted({pair for m in members for pair in _narrower(shared.bounds, m.bounds)})

    @property
    def alike(self) -> list[list[int]]:
        """All members; those that ask for the same stand together."""
        return [some for some in (self._everything, *self._by_selection.values()) if some]

    def refine(self, found: Combinations) -> Iterator[tuple[list[int], Ints | None]]:
        """Members and their rows of `found`; None stands for all rows. Members without rows are left out."""
        if self._everything:
            yield self._everything, None
        if not len(self._chosen):
            return
        count = len(found)
        prepared = self._selections.factors.prepare(self._columns(found), count)
        words: Words = np.zeros((len(self._chosen), words_for(count)), np.uint64)
        counts = np.zeros(len(self._chosen), np.int64)
        self._selections.answer(prepared, self._chosen, Masks.none(len(self._chosen)), (words, counts))
        for place, members in enumerate(self._by_selection.values()):
            if counts[place] == count:
                yield members, None
            elif counts[place]:
                yield members, set_bits(words[place], int(counts[place]))

    def _as_rank(self, condition: Expr) -> Expr:
        """An inequality as a comparison of its rank, where there are others like it."""
        found = as_inequality(condition)
        if found is None or found[0] not in self._ranked:
            return condition
        return self._ranked[found[0]].condition(found[1])

    def _columns(self, found: Combinations) -> Mapping[str, pa.Array]:
        columns = found.evaluable(self._shared.aliases)
        for ranked in self._ranked.values():
            columns[ranked.column.name] = pa.array(ranked.ranks(columns, len(found)))
        for i, j in self._pairs:
            columns[_distance(i, j).name] = pa.array(found.ts[j] - found.ts[i])
        return columns


def _ranked(conditions: Sequence[Expr]) -> dict[Inequality, RankedInequalities]:
    """Inequalities that differ in their constants only, each with the constants there are."""
    constants: dict[Inequality, set[float]] = {}
    for condition in conditions:
        found = as_inequality(condition)
        if found is not None:
            constants.setdefault(found[0], set()).add(found[1])
    many = {inequality: some for inequality, some in constants.items() if len(some) > 1}
    return {
        each: RankedInequalities(f"#rank{number}", each, list(some)) for number, (each, some) in enumerate(many.items())
    }


def _distance(i: int, j: int) -> Column:
    """How much later stream j's row is than stream i's."""
    return Column(f"#{j}-{i}", BIGINT)


def _narrower(shared: Bound, own: Bound) -> list[tuple[int, int]]:
    """The pairs that a member's windows bound more tightly than the shared ones do."""
    return [(i, j) for i, j in permutations(range(len(own)), 2) if own[i][j] < shared[i][j]]


def _windows(shared: Bound, own: Bound) -> list[Expr]:
    return [Call("le", (_distance(i, j), Literal(own[i][j], BIGINT)), BOOLEAN) for i, j in _narrower(shared, own)]


@kernel
def set_bits(words: Words, count: int) -> Ints:
    """The numbers of the bits that are set, ascending."""
    out = np.empty(count, np.int64)
    at = 0
    for w in range(len(words)):
        word = words[w]
        while word:
            out[at] = w * 64 + lowest_bit(word)
            at += 1
            word &= word - np.uint64(1)
    return out


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
        found, left, operation = _moved(left), right, FLIPPED[operation]
    if found is None or left.type != DOUBLE:
        return None
    moved, form, constant = found
    return Inequality(left, moved, operation in ("lt", "le"), operation in ("lt", "gt"), form), constant


def _moved(expr: Expr) -> tuple[Expr, int, float] | None:
    if not isinstance(expr, Call) or expr.operation not in ("add", "sub") or expr.type != DOUBLE:
        return None
    first, second = expr.arguments
    adds = expr.operation == "add"
    if (known := _constant(second)) is not None:
        return first, _PLUS if adds else _MINUS, known
    if (known := _constant(first)) is not None:
        return second, _PLUS if adds else _FROM, known
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
