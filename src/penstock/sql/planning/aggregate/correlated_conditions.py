"""Conditions on the aggregate of a subquery: what is compared with what, and which rows the subquery is about."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.expr.expression import Call, Expr, Literal, is_static
from penstock.operators.aggregate.partials.bands import Edge, Edges
from penstock.operators.aggregate.partials.correlated import PREFIX
from penstock.sql.bound_trees import conjuncts
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Const
from penstock.sql.planning.relations import all_of
from penstock.sql.scope import BoundSource
from penstock.sql.values import type_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, Type

_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.GT: ("gt", "lt"),
    exp.GTE: ("ge", "le"),
    exp.LT: ("lt", "gt"),
    exp.LTE: ("le", "ge"),
}
_INNER: dict[type[exp.Expr], str] = {exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
_CLAUSES = ("group", "having", "distinct", "order", "limit", "offset", "windows")
_BITS = {INT: "32", BIGINT: "64", DOUBLE: ""}
"""What arithmetic on a type adds to the name of an edge."""
_WIDER = {(INT, DOUBLE), (INT, BIGINT), (BIGINT, DOUBLE)}


@dataclass(frozen=True, slots=True)
class CorrelationKey:
    """What of a row inside has to equal the same of the row outside."""

    of: Expr
    nulls_are_equal: bool

    @property
    def known(self) -> list[Expr]:
        """What a row outside needs to have any partner."""
        if self.nulls_are_equal:
            return []
        return [Call("not", (Call("is_null", (self.of,), BOOLEAN),), BOOLEAN)]


@dataclass(frozen=True, slots=True)
class Correlation:
    """x compared with the inner aggregate times or plus a constant, or how far it is from it.

    The subquery is about the rows that are `counted`, of sensors that satisfy `sensors`, with the `keys` of the row outside.
    """

    inner: str
    of: Expr
    x: Expr
    edges: Edges
    counted: tuple[Expr, ...] = ()
    sensors: frozenset[Expr] = frozenset()
    keys: tuple[CorrelationKey, ...] = ()

    def call(self, outer: str, prefix: str = PREFIX) -> str:
        return f"{prefix} {outer} {self.inner} {' '.join(map(str, self.edges))}"

    @property
    def is_band(self) -> bool:
        return len(self.edges) > 1 or self.edges[0].how == "off"

    def beside(self, other: Correlation) -> Correlation:
        """Both conditions at once."""
        if replace(self, edges=()) != replace(other, edges=()):
            raise NotCovered("two different subqueries run as Spark SQL, exactly")
        return replace(self, edges=(*self.edges, *other.edges))

    def of_counted(self, sensors: list[Expr]) -> Expr:
        """What the inner aggregate is of: NULL for readings that do not count, and for sensors of which some is asked here."""
        condition = all_of([*sensors, *self.counted])
        if condition is None:
            return self.of
        return Call("case", (condition, self.of, Literal(None, self.of.type)), self.of.type)


def correlation_of(condition: exp.Expr, outside: BoundSource) -> Correlation:
    """A condition on rows of `outside` that has a subquery in it, or NotCovered with the reason."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if type(condition) not in _COMPARISONS:
        raise NotCovered("this condition on a subquery runs as Spark SQL, exactly")
    left, right = condition.this, condition.expression
    straight, turned = _COMPARISONS[type(condition)]
    for distance, limit, comparison in ((left, right, straight), (right, left, turned)):
        around = _around(_uncast(distance), _uncast(limit), comparison, outside)
        if around is not None:
            return around
    if left.find(exp.Subquery) is None:
        return _compared(left, right, straight, outside)
    return _compared(right, left, turned, outside)


def _compared(x: exp.Expr, threshold: exp.Expr, comparison: str, outside: BoundSource) -> Correlation:
    how, constant, subquery = _linear(threshold)
    return _of(x, subquery, Edge(comparison, how, constant), outside)


def _around(distance: exp.Expr, limit: exp.Expr, comparison: str, outside: BoundSource) -> Correlation | None:
    """ABS(x - (SELECT AVG(x) ..)) <= constant; None for any other condition."""
    inside = _uncast(distance.this) if isinstance(distance, exp.Abs) else None
    if not isinstance(inside, exp.Sub) or not isinstance(limit, Const) or comparison not in ("lt", "le"):
        return None
    x, subquery = inside.this, _widened(inside.expression)
    if not isinstance(subquery, exp.Subquery):
        x, subquery = inside.expression, _widened(inside.this)
    if not isinstance(subquery, exp.Subquery) or type_of(inside) != DOUBLE or not isinstance(limit.value, int | float):
        return None
    return _of(x, subquery, Edge(comparison, "off", float(limit.value)), outside)


def _of(x: exp.Expr, subquery: exp.Subquery, edge: Edge, outside: BoundSource) -> Correlation:
    select = subquery.this
    aggregate = select.expressions[0].unalias() if isinstance(select, exp.Select) else None
    inner = _INNER.get(type(aggregate)) if aggregate is not None else None
    if aggregate is None or inner is None or any(select.args.get(key) for key in _CLAUSES):
        raise NotCovered("a subquery other than MIN, MAX or AVG of rows runs as Spark SQL, exactly")
    if (
        not isinstance(aggregate.this, exp.Expr)
        or isinstance(aggregate.this, exp.Distinct)
        or _sides(aggregate, outside) != {"inside"}
    ):
        raise NotCovered("a subquery other than MIN, MAX or AVG of its rows runs as Spark SQL, exactly")
    keys, conditions = [], []
    for condition in conjuncts(select.args.get("where")):
        if "outside" in _sides(condition, outside):
            keys.append(_key(condition, outside))
        else:
            conditions.append(lower(condition))
    return Correlation(
        inner,
        lower(_uncast(aggregate.this)),
        lower(_uncast(x)),
        (edge,),
        tuple(condition for condition in conditions if not is_static(condition)),
        frozenset(condition for condition in conditions if is_static(condition)),
        tuple(dict.fromkeys(keys)),
    )


def _sides(node: exp.Expr, outside: BoundSource) -> set[str]:
    """The sides, inside and outside, that an expression of a subquery names columns of."""
    return {"outside" if c.meta.get("source") is outside else "inside" for c in node.find_all(exp.Column)}


def _key(condition: exp.Expr, outside: BoundSource) -> CorrelationKey:
    """`i.k = o.k`: the same of the row inside and of the row outside."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.EQ | exp.NullSafeEQ):
        one, two = condition.this, condition.expression
        sides = [_sides(one, outside), _sides(two, outside)]
        if sides in ([{"inside"}, {"outside"}], [{"outside"}, {"inside"}]) and lower(one) == lower(two):
            return CorrelationKey(lower(one), isinstance(condition, exp.NullSafeEQ))
    raise NotCovered("a subquery that looks at the row outside by more than equal keys runs as Spark SQL, exactly")


def _linear(node: exp.Expr) -> tuple[str, int | float, exp.Subquery]:
    """How the threshold comes from the subquery: times or plus a constant, in the arithmetic of its type."""
    node = _widened(node)
    if isinstance(node, exp.Subquery):
        return f"mul{_bits(type_of(node))}", 1 if _bits(type_of(node)) else 1.0, node
    for one, two in ((node.this, node.expression), (node.expression, node.this)):
        value = _widened(one) if isinstance(one, exp.Expr) else None
        if not isinstance(value, Const) or not isinstance(value.value, int | float) or isinstance(value.value, bool):
            continue
        inner = _widened(two)
        if not isinstance(inner, exp.Subquery):
            break
        bits = _bits(type_of(node))
        constant = int(value.value) if bits else float(value.value)
        if isinstance(node, exp.Mul):
            return f"mul{bits}", constant, inner
        if isinstance(node, exp.Add):
            return f"add{bits}", constant, inner
        if isinstance(node, exp.Sub) and one is node.expression:
            return f"add{bits}", -constant, inner
    raise NotCovered("a threshold other than the subquery times or plus a constant runs as Spark SQL, exactly")


def _bits(type_: Type) -> str:
    if type_ not in _BITS:
        raise NotCovered(f"a correlated aggregate of {type_} runs as Spark SQL, exactly")
    return _BITS[type_]


def _uncast(node: exp.Expr) -> exp.Expr:
    """Without parentheses, and without the casts from INT to DOUBLE that binding adds: both are doubles inside."""
    while isinstance(node, exp.Paren) or (
        isinstance(node, exp.Cast) and type_of(node) == DOUBLE and type_of(node.this) == INT
    ):
        node = node.this
    return node


def _widened(node: exp.Expr) -> exp.Expr:
    """Without parentheses, and without casts to a wider type: a threshold becomes what it is compared with."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and (type_of(node.this), type_of(node)) in _WIDER):
        node = node.this
    return node
