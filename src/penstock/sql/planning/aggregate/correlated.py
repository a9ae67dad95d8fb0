"""A correlated aggregate from an ordinary subquery: `x >= 0.9 * (SELECT MAX(x) FROM the same stream)` as one measure of slices."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.expr.expression import Call, Expr, Literal, is_static
from penstock.expr.windows import EVERYTHING, RowsWindow, TimeWindow, Window
from penstock.operators.aggregate.approximate.within import WITHIN
from penstock.sql.binding.approximate import says
from penstock.sql.binding.context import BoundQuery
from penstock.sql.bound_trees import conjuncts
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import WithinPercent
from penstock.sql.plan import AggregateCall, AggregatePlan, CorrelatedGroups
from penstock.sql.planning.aggregate.approximate import APPROXIMATED, parameters
from penstock.sql.planning.aggregate.correlated_conditions import Correlation, correlation_of
from penstock.sql.planning.aggregate.planner import PLAIN, AggregateCalls, plan_of_rows, without_functions
from penstock.sql.planning.relations import all_of
from penstock.sql.scope import BoundSource, PaneEdges
from penstock.sql.values import external, type_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT


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
        if self.panes is not None and self.panes.width % self.panes.step:
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
        rough = isinstance(within, WithinPercent) and isinstance(window, TimeWindow) and self.panes is None and asked
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
        if self._within is None or outer not in APPROXIMATED or (outer != "count" and y.type == BIGINT):
            return replace(call, function=self._correlation.call(outer))
        assert isinstance(self._window, TimeWindow)
        function = f"{self._correlation.call(outer, WITHIN)} {self._say}"
        fine = parameters(self._within, outer, self._window, self._correlation.is_band)
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
        return tuple(keys), CorrelatedGroups(inner, outer, self.aggregates.index(rows))
