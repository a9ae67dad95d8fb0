"""A correlated aggregate from an ordinary subquery: `x >= 0.9 * (SELECT MAX(x) FROM the same stream)` as one measure of slices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.operators.expr import Call, Expr, Literal, calls_user, is_static
from penstock.operators.slices.approximate.within import WITHIN
from penstock.operators.slices.bands import Edge, Edges
from penstock.operators.slices.correlated import PREFIX
from penstock.operators.windows import EVERYTHING, TimeWindow
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.binding.context import Bound
from penstock.sql.binding.within import says
from penstock.sql.lower import NotCovered, lower
from penstock.sql.nodes import Const, Within
from penstock.sql.plan import AggregateCall, AggregatePlan, Output, aggregate_name
from penstock.sql.relations import all_of, conjuncts
from penstock.sql.values import external, type_of, typed
from penstock.sql.within import APPROXIMATED, parameters
from penstock.types import BOOLEAN, DOUBLE, INT

_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.GT: ("gt", "lt"),
    exp.GTE: ("ge", "le"),
    exp.LT: ("lt", "gt"),
    exp.LTE: ("le", "ge"),
}
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
_CLAUSES = ("where", "group", "having", "distinct", "order", "limit", "offset", "windows")


@dataclass(frozen=True, slots=True)
class Correlation:
    """x compared with the inner aggregate times or plus a constant, or how far it is from it."""

    inner: str
    of: Expr
    x: Expr
    edges: Edges
    sensors: frozenset[Expr] = frozenset()
    """What the subquery asks of static columns; of its rows the others are NULL in `of`."""

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


def is_correlated(bound: Bound) -> bool:
    """Whether WHERE compares with an aggregate of a subquery, which alone is read beside the stream."""
    contexts, where = bound.collected.contexts, bound.query.args.get("where")
    return (
        isinstance(bound.query, exp.Select)
        and where is not None
        and where.find(exp.Subquery) is not None
        and 2 <= len(contexts) <= 3
        and contexts[0].aggregated
        and all(context.role == "scalar" and context.aggregated for context in contexts[1:])
    )


def correlated_plan(bound: Bound) -> AggregatePlan:
    """The question as one measure of slices, or NotCovered with the reason."""
    query, contexts = bound.query, bound.collected.contexts
    sources = [source for context in contexts for source in context.sources]
    if len(sources) != len(contexts) or any(s.kind != "sensors" or s.table is None for s in sources):
        raise NotCovered("a correlated aggregate over more than one stream runs as Spark SQL, exactly")
    outer, *inners = sources
    assert outer.table is not None
    window = outer.window or EVERYTHING
    if any(s.table != outer.table or (s.window or EVERYTHING) != window for s in inners):
        raise NotCovered("a subquery over another stream or window runs as Spark SQL, exactly")
    if not isinstance(window, TimeWindow) or not all(s.needs_stream for s in inners):
        raise NotCovered("a correlated aggregate over a window of rows runs as Spark SQL, exactly")
    if any(query.args.get(key) for key in _CLAUSES if key != "where"):
        raise NotCovered("a correlated aggregate with GROUP BY, HAVING or ORDER BY runs as Spark SQL, exactly")
    for context in contexts[1:]:
        if any(column.meta.get("source") is not context.sources[0] for column in context.select.find_all(exp.Column)):
            raise NotCovered("a subquery that looks at the row outside runs as Spark SQL, exactly")
    found: Correlation | None = None
    conditions: list[Expr] = []
    for condition in conjuncts(query.args.get("where")):
        if condition.find(exp.Subquery, exp.Select) is None:
            conditions.append(lower(condition))
        else:
            found = _correlation(condition) if found is None else found.beside(_correlation(condition))
    sensors = [condition for condition in conditions if is_static(condition)]
    if found is None or found.sensors != frozenset(sensors):
        # Sensors that one of the two leaves out have a NOW of their own.
        raise NotCovered("a correlated aggregate whose subquery is about other sensors runs as Spark SQL, exactly")
    seen = all_of([condition for condition in conditions if not is_static(condition)]) or Literal(True, BOOLEAN)
    calls: list[AggregateCall] = []
    within = query.args.get("within")

    def replaced(node: exp.Expr, say: str) -> exp.Expr:
        if not is_aggregate(node):
            return node
        call = _outer(node, found, seen)
        outer = call.function.split(" ")[1]
        if isinstance(within, Within) and outer in APPROXIMATED:
            function = f"{found.call(outer, WITHIN)} {say}"
            call = replace(call, function=function, parameter=parameters(within, outer, window, found.is_band))
        if call not in calls:
            calls.append(call)
        column = exp.Column(this=exp.Identifier(this=aggregate_name(calls.index(call)), quoted=True))
        return typed(column, call.type)

    outputs = tuple(
        Output(field.name, field.type, lower(item.this.copy().transform(replaced, says(query, place), copy=False)))
        for place, (field, item) in enumerate(zip(bound.fields, query.expressions, strict=True))
    )
    if any(calls_user(e) for call in calls for e in call.arguments):
        raise NotCovered("aggregates with user functions run as Spark SQL")
    return AggregatePlan(outer.table.id, (), tuple(calls), outputs, window, static_predicate=all_of(sensors))


def _outer(node: exp.Expr, correlation: Correlation, seen: Expr) -> AggregateCall:
    outer = _AGGREGATES.get(type(node))
    if outer is None or node.expressions or node.args.get("expression") is not None:
        raise NotCovered("this aggregate of rows that an inner one picks runs as Spark SQL, exactly")
    if isinstance(node.this, exp.Distinct):
        raise NotCovered("DISTINCT of rows that an inner aggregate picks runs as Spark SQL, exactly")
    everything = outer == "count" and (node.this is None or isinstance(node.this, exp.Star))
    y = Literal(1, INT) if everything else lower(node.this)
    for value in (correlation.of, correlation.x, y):
        if value.type not in (INT, DOUBLE):
            raise NotCovered(f"a correlated aggregate of {value.type} runs as Spark SQL, exactly")
    return AggregateCall(correlation.call(outer), (correlation.of, correlation.x, y, seen), external(type_of(node)))


def _correlation(condition: exp.Expr) -> Correlation:
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if type(condition) not in _COMPARISONS:
        raise NotCovered("this condition on a subquery runs as Spark SQL, exactly")
    left, right = condition.this, condition.expression
    straight, turned = _COMPARISONS[type(condition)]
    for distance, limit, comparison in ((left, right, straight), (right, left, turned)):
        around = _around(_uncast(distance), _uncast(limit), comparison)
        if around is not None:
            return around
    if left.find(exp.Subquery) is None:
        return _compared(left, right, straight)
    return _compared(right, left, turned)


def _compared(x: exp.Expr, threshold: exp.Expr, comparison: str) -> Correlation:
    how, constant, subquery = _linear(threshold)
    return _of(x, subquery, Edge(comparison, how, constant))


def _around(distance: exp.Expr, limit: exp.Expr, comparison: str) -> Correlation | None:
    """ABS(x - (SELECT AVG(x) ..)) <= constant; None for any other condition."""
    inside = _uncast(distance.this) if isinstance(distance, exp.Abs) else None
    if not isinstance(inside, exp.Sub) or not isinstance(limit, Const) or comparison not in ("lt", "le"):
        return None
    one, two = _uncast(inside.this), _uncast(inside.expression)
    x, subquery = (one, two) if isinstance(two, exp.Subquery) else (two, one)
    if not isinstance(subquery, exp.Subquery) or type_of(inside) != DOUBLE or not isinstance(limit.value, int | float):
        return None
    return _of(x, subquery, Edge(comparison, "off", float(limit.value)))


def _of(x: exp.Expr, subquery: exp.Subquery, edge: Edge) -> Correlation:
    select = subquery.this
    aggregate = select.expressions[0].unalias() if isinstance(select, exp.Select) else None
    inner = _AGGREGATES.get(type(aggregate)) if aggregate is not None else None
    plain = (
        aggregate is not None and isinstance(aggregate.this, exp.Expr) and not isinstance(aggregate.this, exp.Distinct)
    )
    if (
        inner not in ("min", "max", "avg")
        or not plain
        or any(select.args.get(key) for key in _CLAUSES if key != "where")
    ):
        raise NotCovered("a subquery other than MIN, MAX or AVG of rows runs as Spark SQL, exactly")
    assert aggregate is not None
    of = lower(_uncast(aggregate.this))
    conditions = [lower(condition) for condition in conjuncts(select.args.get("where"))]
    counted = all_of([condition for condition in conditions if not is_static(condition)])
    if counted is not None:
        of = Call("case", (counted, of, Literal(None, of.type)), of.type)
    sensors = frozenset(condition for condition in conditions if is_static(condition))
    return Correlation(inner, of, lower(_uncast(x)), (edge,), sensors)


def _linear(node: exp.Expr) -> tuple[str, float, exp.Subquery]:
    """How the threshold comes from the subquery: times or plus a constant."""
    node = _uncast(node)
    if isinstance(node, exp.Subquery):
        return "mul", 1.0, node
    for one, two in ((node.this, node.expression), (node.expression, node.this)):
        value = _uncast(one) if isinstance(one, exp.Expr) else None
        if not isinstance(value, Const) or not isinstance(value.value, int | float) or isinstance(value.value, bool):
            continue
        inner = _uncast(two)
        if not isinstance(inner, exp.Subquery):
            break
        if isinstance(node, exp.Mul):
            return "mul", float(value.value), inner
        if isinstance(node, exp.Add):
            return "add", float(value.value), inner
        if isinstance(node, exp.Sub) and one is node.expression:
            return "add", -float(value.value), inner
    raise NotCovered("a threshold other than the subquery times or plus a constant runs as Spark SQL, exactly")


def _uncast(node: exp.Expr) -> exp.Expr:
    """Without parentheses, and without the casts from INT to DOUBLE that binding adds: both are doubles inside."""
    while isinstance(node, exp.Paren) or (
        isinstance(node, exp.Cast) and type_of(node) == DOUBLE and type_of(node.this) == INT
    ):
        node = node.this
    return node
