"""A correlated aggregate from an ordinary subquery: `x >= 0.9 * (SELECT MAX(x) FROM the same stream)` as one measure of slices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import error
from penstock.expr.expression import Call, Expr, Literal, is_static
from penstock.expr.windows import EVERYTHING, FOREVER, RowsWindow, TimeWindow, Window
from penstock.operators.aggregate.approximate.coarse_cells import LONGEST_US
from penstock.operators.aggregate.approximate.within import WITHIN
from penstock.operators.aggregate.partials.correlated import PREFIX, Edge, Edges
from penstock.sql.binding.approximate import says
from penstock.sql.binding.context import BoundQuery, Collected
from penstock.sql.bound_trees import conjuncts
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Const, WithinPercent
from penstock.sql.plan import AggregateCall, AggregatePlan, CorrelatedGroups
from penstock.sql.planning.aggregate.planner import (
    PLAIN,
    AggregateCalls,
    plan_of_rows,
    with_landmarks,
    without_functions,
)
from penstock.sql.planning.relations import all_of
from penstock.sql.scope import BoundSource, PaneEdges
from penstock.sql.values import external, type_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, Type

_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.GT: ("gt", "lt"),
    exp.GTE: ("ge", "le"),
    exp.LT: ("lt", "gt"),
    exp.LTE: ("le", "ge"),
}
_INNER: dict[type[exp.Expr], str] = {exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
_CLAUSES = ("group", "having", "qualify", "distinct", "order", "limit", "offset", "windows")
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
    per_window: bool = False  # the inner aggregate is that of the pane

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
    condition = condition.unnest()
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
        bool(select.args.get("per_window")),
    )


def _sides(node: exp.Expr, outside: BoundSource) -> set[str]:
    """The sides, inside and outside, that an expression of a subquery names columns of."""
    return {"outside" if c.meta.get("source") is outside else "inside" for c in node.find_all(exp.Column)}


def _key(condition: exp.Expr, outside: BoundSource) -> CorrelationKey:
    """`i.k = o.k`: the same of the row inside and of the row outside."""
    condition = condition.unnest()
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
    return _without_casts(node, {(INT, DOUBLE)})


def _widened(node: exp.Expr) -> exp.Expr:
    """Without parentheses, and without casts to a wider type: a threshold becomes what it is compared with."""
    return _without_casts(node, _WIDER)


def _without_casts(node: exp.Expr, casts: set[tuple[Type, Type]]) -> exp.Expr:
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and (type_of(node.this), type_of(node)) in casts):
        node = node.this
    return node


def is_correlated(bound: BoundQuery) -> bool:
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


def settle_per_window(collected: Collected) -> None:
    """Refuse PER WINDOW where there is no window that a subquery could be about."""
    for context in collected.contexts:
        clause = context.select.args.get("per_window")
        if clause is None:
            continue
        around = context.parent
        if around is None or context.role != "scalar" or around.scope.panes is None:
            hint = "it stands in a subquery of WHERE, beside GROUP BY TUMBLE(..), SLIDE(..) or LANDMARK (..)"
            context.fail(clause, error("not_supported", feature="PER WINDOW here", hint=hint))


def refuse_per_window(bound: BoundQuery, reason: str | None) -> None:
    """Refuse what would be Spark SQL, which knows neither PER WINDOW nor LANDMARK."""
    hint = reason if reason is not None else "make it a standing query over one stream: CREATE QUERY name AS SELECT .."
    for context in bound.collected.contexts:
        panes = context.scope.panes
        if panes is not None and panes.landmark is not None:
            context.fail(panes.start, error("not_supported", feature="LANDMARK here", hint=hint))
        clause = context.select.args.get("per_window")
        if clause is not None:
            context.fail(clause, error("not_supported", feature="PER WINDOW in Spark SQL", hint=hint))


def correlated_plan(bound: BoundQuery) -> AggregatePlan:
    """The question as one measure of slices, or NotCovered with the reason."""
    query, context = bound.query, bound.collected.contexts[0]
    assert isinstance(query, exp.Select)
    outer, window = _one_stream(bound)
    assert outer.table is not None
    found: Correlation | None = None
    conditions: list[Expr] = []
    for condition in conjuncts(query.args.get("where")):
        if condition.find(exp.Subquery, exp.Select) is None:
            conditions.append(lower(condition))
        else:
            also = correlation_of(condition, outer)
            found = also if found is None else found.beside(also)
    assert found is not None
    sensors = [condition for condition in conditions if is_static(condition)]
    common = [condition for condition in sensors if condition in found.sensors]
    own, others = [s for s in sensors if s not in common], sorted(found.sensors - set(common), key=str)
    if (own or others) and not _has_one_now(outer, window):
        raise NotCovered("a correlated aggregate whose subquery is about other sensors runs as Spark SQL, exactly")
    of = found.of_counted(others)
    seen = [*own, *(condition for condition in conditions if not is_static(condition))]
    seen += [condition for key in found.keys for condition in key.known]
    taken = _Picked(query, context.scope.panes, found, (of, found.x), all_of(seen), window)
    plan = plan_of_rows(bound, query, taken)
    if plan.own_windows:
        raise NotCovered("an aggregate with a window of its own beside a subquery runs as Spark SQL")
    keys, picking = taken.picking()
    plan = replace(
        plan,
        table_id=outer.table.id,
        keys=keys,
        aggregates=tuple(taken.aggregates),
        window=window,
        static_predicate=all_of(common),
        picking=picking,
    )
    if context.scope.panes is not None and context.scope.panes.landmark is not None:
        if not found.per_window:
            raise NotCovered("a subquery beside LANDMARK says PER WINDOW")
        plan = with_landmarks(plan, context.scope.panes.landmark)
    return without_functions(plan)


def _one_stream(bound: BoundQuery) -> tuple[BoundSource, Window]:
    """The stream that all is about, and the window over it."""
    contexts = bound.collected.contexts
    sources = [source for context in contexts for source in context.sources]
    if len(sources) != len(contexts) or any(s.kind != "sensors" or s.table is None for s in sources):
        raise NotCovered("a correlated aggregate over more than one stream runs as Spark SQL, exactly")
    if not all(source.needs_stream for source in sources):
        raise NotCovered("a correlated aggregate of static columns alone runs as Spark SQL, exactly")
    outer, *inners = sources
    window = outer.window or EVERYTHING
    if any(s.table != outer.table or (s.window or EVERYTHING) != window for s in inners):
        raise NotCovered("a subquery over another stream or window runs as Spark SQL, exactly")
    return outer, window


def _has_one_now(outer: BoundSource, window: Window) -> bool:
    """Whether a window is the same whatever sensors a SELECT is about. NOW of valid time is their newest reading."""
    assert outer.table is not None
    if isinstance(window, RowsWindow):
        return False  # other sensors have other newest rows
    if outer.table.options.time == "transaction":
        return True
    return window.begin.anchor != "now" and (window.end.anchor != "now" or window.end.offset_us >= 0)


class _Picked(AggregateCalls):
    """The aggregates of the rows that an inner aggregate picks."""

    def __init__(
        self,
        query: exp.Select,
        edges: PaneEdges | None,
        correlation: Correlation,
        compared: tuple[Expr, Expr],
        seen: Expr | None,
        window: Window,
    ) -> None:
        super().__init__(query, edges)
        if self.session_us:
            raise NotCovered("a correlated aggregate with SESSION runs as Spark SQL, exactly")
        if self.panes is not None and self.panes.width % self.panes.step and not correlation.per_window:
            # No choice of its panes has every row once, which the inner aggregate needs.
            raise NotCovered(
                "a correlated aggregate with SLIDE by no whole part of its width runs as Spark SQL, exactly"
            )
        self._query = query
        self._say = "value"  # what the column that is lowered says of its aggregate
        self._correlation, self._compared, self._window = correlation, compared, window
        self._seen = seen if seen is not None else Literal(True, BOOLEAN)
        within = query.args.get("within")
        asked = {key.of for key in correlation.keys} <= set(self.lowered_keys())
        # Buckets do not tell inner aggregates apart inside of a group, nor panes, and newest rows are not kept at all.
        rough = isinstance(within, WithinPercent) and isinstance(window, TimeWindow) and edges is None and asked
        self._within = within if rough else None

    def output(self, place: int, node: exp.Expr) -> Expr:
        self._say = says(self._query, place)
        found = self.lower(node)
        self._say = "value"
        return found

    def call(self, aggregate: exp.Expr, filtered: exp.Filter | None) -> AggregateCall:
        outer = PLAIN.get(type(aggregate))
        if outer is None or aggregate.expressions or aggregate.args.get("expression") is not None:
            raise NotCovered("this aggregate of rows that an inner one picks runs as Spark SQL, exactly")
        if isinstance(aggregate.this, exp.Distinct):
            raise NotCovered("DISTINCT of rows that an inner aggregate picks runs as Spark SQL, exactly")
        everything = outer == "count" and (aggregate.this is None or isinstance(aggregate.this, exp.Star))
        y = Literal(1, INT) if everything else lower(aggregate.this)
        if outer == "count" and y.type not in (INT, DOUBLE, BIGINT):
            y = Call("case", (Call("is_null", (y,), BOOLEAN), Literal(None, INT), Literal(1, INT)), INT)
        if filtered is not None:
            y = Call("case", (lower(filtered.expression.this), y, Literal(None, y.type)), y.type)
        for value in (*self._compared, y):
            if value.type not in (INT, DOUBLE, BIGINT):
                raise NotCovered(f"a correlated aggregate of {value.type} runs as Spark SQL, exactly")
        return self._of(outer, y, AggregateCall("", (*self._compared, y, self._seen), external(type_of(aggregate))))

    def _of(self, outer: str, y: Expr, call: AggregateCall) -> AggregateCall:
        # Sums of buckets are doubles, and BIGINT is exact.
        if self._within is None or outer not in _APPROXIMATED or (outer != "count" and y.type == BIGINT):
            return replace(call, function=self._correlation.call(outer))
        assert isinstance(self._window, TimeWindow)
        function = f"{self._correlation.call(outer, WITHIN)} {self._say}"
        fine = _parameters(self._within, outer, self._window, self._correlation.is_band)
        return replace(call, function=function, parameter=fine)

    def picking(self) -> tuple[tuple[Expr, ...], CorrelatedGroups | None]:
        """All keys, and what they are for; counts picked rows where a group has to have some."""
        keys = [*self.lowered_keys()]
        outer = len(keys)
        if len(set(keys)) != outer:
            raise NotCovered("a key twice in GROUP BY runs as Spark SQL")
        keys += [key.of for key in self._correlation.keys if key.of not in keys]
        if any(key.type.kind in ("ARRAY", "STRUCT") for key in keys):
            raise NotCovered("a subquery about an array or a struct of the row outside runs as Spark SQL, exactly")
        if not keys and self.panes is None:
            return (), None
        one = Literal(1, INT)
        rows = self._of("count", one, AggregateCall("", (*self._compared, one, self._seen), BIGINT))
        if rows not in self.aggregates:
            self.aggregates.append(rows)
        inner = tuple(keys.index(key.of) for key in self._correlation.keys)
        per_window = self._correlation.per_window
        return tuple(keys), CorrelatedGroups(inner, outer, self.aggregates.index(rows), per_window)


# -- WITHIN n PERCENT as parameters of slices: how fine buckets are, and how wide cells may grow

_APPROXIMATED = ("count", "sum", "avg")
"""Of MIN and MAX the values are kept, as without WITHIN."""
_SHARE_OF_WINDOW = 64
_RECENT_US = 10_000_000
"""How long cells stay seconds: a question about an older cycle reads some rows of the log."""

_OF_BAND = 4
"""Between two edges lies less than beyond one of them, and both are cut."""


def _parameters(within: WithinPercent, outer: str, window: TimeWindow, band: bool) -> tuple[float, ...]:
    """What is promised, how fine buckets are, the widest slot and how long cells stay as fine as they came."""
    recent = _RECENT_US - window.end.offset_us if window.end.anchor == "now" else FOREVER
    fine = _fineness(within.share, outer) / (_OF_BAND if band else 1)
    return within.share, fine, _widest_us(window), max(_RECENT_US, recent)


def _fineness(share: float, outer: str) -> float:
    """How much of what lies beyond a bucket it may hold. The middle of the bounds is off by half of the buckets that a cut goes
    through: one of each cell, and another for each time that cells were merged. An average has the doubt of a sum and of a count.
    """
    return share / (4 if outer == "avg" else 2)


def _widest_us(window: TimeWindow) -> int:
    """The slot that BEGIN cuts is read from the log, so it is a small part of the window."""
    if not window.slides:
        return LONGEST_US
    return min(LONGEST_US, (window.end.offset_us - window.begin.offset_us) // _SHARE_OF_WINDOW)
