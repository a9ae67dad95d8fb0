"""Group joins that differ in constants only, and make the one join that runs for a group.

A group joins the same tables by the same equalities, with windows and conditions that are equal up to constants. It runs as
one step with the widest windows and the weakest conditions, and `join.kernels.refinement` finds each member's results.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import orjson

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.expression import Call, Column, Expr, calls_user, columns_of, conjuncts, to_json, with_columns
from penstock.operators.join.kernels.refinement import Member
from penstock.operators.join.kernels.weakest import all_of, by_shape, shape, weakest
from penstock.operators.join.steps.prepared_join import PreparedJoin, prepare, qualified
from penstock.sql.plan import JoinInput, JoinPlan

# Tests and comparisons switch it off.
SHARING = True
# Members' windows may lie apart. A step over all of them must not have more to look through than this many times
# what they have each for itself.
MOST_LARGER = 1.5


@dataclass(frozen=True, slots=True)
class UniformJoin:
    """A plan with its streams and conditions in an order and under names that do not depend on how it was written.

    Stream s of the uniform plan is `order[s]` of the query's own. `carried` are columns that it needs beside its conditions'.
    """

    plan: JoinPlan
    order: tuple[int, ...]
    carried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SharedJoin:
    """A group of joins and the join that they are refined from."""

    join: PreparedJoin
    tested: tuple[Expr, ...]
    members: tuple[Member, ...]
    uniforms: Mapping[int, UniformJoin]

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.uniforms)

    def apart(self, number: int) -> SharedJoin:
        """One member by itself, with streams in the group's order: combinations begin where those of the group do."""
        uniform, known = self.uniforms[number], _APART.get(number)
        if known is None or known[0] is not uniform:
            known = _APART[number] = (uniform, _shared([(number, uniform)]))
        return known[1]


def shared_joins(joins: Mapping[int, PreparedJoin]) -> list[SharedJoin]:
    """The groups of two and more. A function of what is asked, so that all workers agree on the names of buffers."""
    global _LAST
    if not SHARING:
        return []
    if _LAST[0] is not joins:
        _LAST = joins, _grouped(joins)
    return _LAST[1]


_LAST: tuple[Mapping[int, PreparedJoin] | None, list[SharedJoin]] = (None, [])
_UNIFORM: dict[int, tuple[PreparedJoin, UniformJoin | None, Hashable]] = {}
_SHARED: dict[tuple[int, ...], tuple[list[UniformJoin], SharedJoin]] = {}
_APART: dict[int, tuple[UniformJoin, SharedJoin]] = {}


def _grouped(joins: Mapping[int, PreparedJoin]) -> list[SharedJoin]:
    """What has not changed since the last time is not worked out again."""
    alike: dict[Hashable, list[tuple[int, UniformJoin]]] = {}
    for query_id in sorted(joins):
        join, known = joins[query_id], _UNIFORM.get(query_id)
        if known is None or known[0] is not join:
            uniform = made_uniform(join) if can_share(join.plan) else None
            known = _UNIFORM[query_id] = (join, uniform, None if uniform is None else _likeness(uniform.plan))
        if known[1] is not None:
            alike.setdefault(known[2], []).append((query_id, known[1]))
    for gone in _UNIFORM.keys() - joins.keys():
        del _UNIFORM[gone]
        _APART.pop(gone, None)
    before = dict(_SHARED)
    _SHARED.clear()
    found = []
    for group in (g for some in alike.values() for g in _near(some) if len(g) > 1):
        numbers, uniforms = tuple(sorted(q for q, _ in group)), [u for _, u in sorted(group, key=lambda e: e[0])]
        same = before.get(numbers)
        if same is None or any(a is not b for a, b in zip(same[0], uniforms, strict=True)):
            same = (uniforms, _shared(group))
        _SHARED[numbers] = same
        found.append(same[1])
    return found


def can_share(plan: JoinPlan) -> bool:
    """Whether a join can be shared: not outer joins, joins with hints, or joins with user functions, which may fail."""
    tested = [e for i in plan.inputs for e in (i.static_predicate, i.stream_predicate, *i.keys) if e is not None]
    return (
        plan.missing == "inner"
        and plan.algorithm is None
        and not any(calls_user(e) for e in (*tested, *plan.conditions))
    )


def made_uniform(join: PreparedJoin) -> UniformJoin:
    plan = join.plan
    places = range(len(plan.inputs))
    order = tuple(sorted(places, key=lambda i: (plan.inputs[i].table_id, i)))
    names = {plan.inputs[old].alias: f"s{new}" for new, old in enumerate(order)}
    inputs = tuple(_sorted(replace(plan.inputs[old], alias=f"s{new}")) for new, old in enumerate(order))
    bounds = tuple(tuple(plan.bounds[a][b] for b in order) for a in order)
    conditions = tuple(by_shape(renamed(c, names) for part in plan.conditions for c in conjuncts(part)))
    carried = [f"s{new}.{name}" for new, old in enumerate(order) if join.is_rich for name in join.streams[old].columns]
    return UniformJoin(JoinPlan(inputs, bounds, conditions, ()), order, tuple(carried))


def _sorted(given: JoinInput) -> JoinInput:
    static, stream = (all_of(by_shape(conjuncts(p))) for p in (given.static_predicate, given.stream_predicate))
    return replace(given, static_predicate=static, stream_predicate=stream)


def renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Columns under other aliases; what has none of them stays."""

    def change(column: Column) -> Expr:
        alias, dot, rest = column.name.partition(".")
        return replace(column, name=f"{names.get(alias, alias)}{dot}{rest}")

    return with_columns(expr, change)


def _likeness(plan: JoinPlan) -> Hashable:
    """Equal for plans that differ in constants only. Equalities between streams lead to rows: they have to be equal."""
    return (
        tuple((i.table_id, _text(i.keys), *map(_shapes, _predicates(i))) for i in plan.inputs),
        tuple(_text([c]) if _is_equality(c) else repr(shape(c)) for c in plan.conditions),
    )


def _predicates(given: JoinInput) -> tuple[list[Expr], list[Expr]]:
    return conjuncts(given.static_predicate), conjuncts(given.stream_predicate)


def _is_equality(condition: Expr) -> bool:
    match condition:
        case Call("eq", (left, right)):
            return bool(columns_of(left) and columns_of(right))
    return False


def _text(exprs: Sequence[Expr]) -> bytes:
    return orjson.dumps([to_json(e) for e in exprs])


def _shapes(exprs: Sequence[Expr]) -> tuple[str, ...]:
    return tuple(repr(shape(e)) for e in exprs)


def _near(group: Sequence[tuple[int, UniformJoin]]) -> list[list[tuple[int, UniformJoin]]]:
    """Split into groups with common windows that are not much larger than the sum of their own; the widest join comes first."""
    found: list[tuple[list[tuple[int, UniformJoin]], list[list[int]], float]] = []
    for each in sorted(group, key=lambda e: (-_size(e[1].plan.bounds), e[0])):
        own = [[b or 0 for b in row] for row in each[1].plan.bounds]
        for place, (members, widest, apart) in enumerate(found):
            common = [[max(pair) for pair in zip(*rows, strict=True)] for rows in zip(widest, own, strict=True)]
            together = apart + _size(own)
            if _size(common) <= MOST_LARGER * together:
                found[place] = ([*members, each], common, together)
                break
        else:
            found.append(([each], own, _size(own)))
    return [members for members, _, _ in found]


def _size(bounds: Sequence[Sequence[int | None]]) -> float:
    """How many combinations of times there are for a row of the first stream, in microseconds to some power."""
    return float(prod((bounds[0][j] or 0) + (bounds[j][0] or 0) + 1 for j in range(1, len(bounds))))


def _shared(group: Sequence[tuple[int, UniformJoin]]) -> SharedJoin:
    group = sorted(group, key=lambda each: each[0])
    plans = [uniform.plan for _, uniform in group]
    places = range(len(plans[0].inputs))
    inputs = []
    for place in places:
        given = [plan.inputs[place] for plan in plans]
        static, stream = (
            _weakest([conjuncts(predicate) for predicate in predicates])
            for predicates in ([i.static_predicate for i in given], [i.stream_predicate for i in given])
        )
        inputs.append(replace(given[0], static_predicate=all_of(static), stream_predicate=all_of(stream)))
    bounds = tuple(tuple(max(p.bounds[a][b] or 0 for p in plans) for b in places) for a in places)
    conditions = _weakest([p.conditions for p in plans])
    join = prepare(JoinPlan(tuple(inputs), bounds, tuple(conditions), ()))
    members = tuple(Member(query_id, _known(u.plan.bounds), _all_conditions(u.plan)) for query_id, u in group)
    tested = _all_conditions(join.plan)
    named = {name for m in members for c in m.conditions if c not in tested for name in columns_of(c)}
    named |= {name for _, u in group for name in u.carried}
    return SharedJoin(_carrying(join, named), tested, members, dict(group))


def _carrying(join: PreparedJoin, named: set[str]) -> PreparedJoin:
    """The join with rows that carry these columns as well."""
    streams = []
    for place, stream in enumerate(join.streams):
        more = {name.partition(".")[2] for name in named if name.startswith(f"s{place}.")} - {TIME_COLUMN}
        streams.append(replace(stream, columns=tuple(sorted({*stream.columns, *more}))))
    return replace(join, streams=tuple(streams))


def _weakest(alike: Sequence[Sequence[Expr]]) -> list[Expr]:
    """What all members imply, conjunct by conjunct; each has as many, in the same order of shapes."""
    found = (weakest(parts) for parts in zip(*alike, strict=True))
    return [each for each in found if each is not None]


def _all_conditions(plan: JoinPlan) -> tuple[Expr, ...]:
    own = [
        qualified(part, each.alias)
        for each in plan.inputs
        for part in (*conjuncts(each.static_predicate), *conjuncts(each.stream_predicate))
    ]
    return (*own, *plan.conditions)


def _known(bounds: Sequence[Sequence[int | None]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(b or 0 for b in row) for row in bounds)
