"""Bound SELECT -> AggregatePlan, or NotCovered with the reason why it stays Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.catalog.state import CatalogState
from penstock.expr.expression import Call, Column, Expr, Literal, calls_user, substituted, walk
from penstock.expr.windows import EVERYTHING, FOREVER, RowsWindow, TimeWindow, Window
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.operators.aggregate.partials.registry import approximate_for, partial_for
from penstock.sql.binding.approximate import is_approximate_call
from penstock.sql.binding.calls import is_aggregate
from penstock.sql.binding.context import BoundQuery
from penstock.sql.binding.mining import is_mining_call
from penstock.sql.bound_trees import output_column
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Const, OwnWindow, Unnested
from penstock.sql.plan import (
    UNNESTED,
    WINDOW_END,
    WINDOW_START,
    AggregateCall,
    AggregatePlan,
    Output,
    ScalarSubquery,
    SelectPlan,
    aggregate_name,
    key_name,
    scalar_name,
)
from penstock.sql.plan.window_calls import WindowCall, parts_of
from penstock.sql.planning.aggregate.mining import by_of, mining_call
from penstock.sql.planning.aggregate.windows import UNREGISTERED, last
from penstock.sql.planning.relations import all_of
from penstock.sql.planning.row_order import refuse_distinct, sorting_of
from penstock.sql.planning.selection import one_stream, predicates, read_columns, read_selection
from penstock.sql.planning.window_functions import WindowCalls
from penstock.sql.scope import PaneEdges
from penstock.sql.values import DURATION, constant, external, type_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP, Type

PLAIN: dict[type[exp.Expr], str] = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    **PLAIN,
    exp.First: "first",
    exp.Last: "last",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Corr: "corr",
    exp.CovarSamp: "covar_samp",
    exp.CovarPop: "covar_pop",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
}
SCALAR = "scalar"  # in the meta of a subquery's node: which of the question's values it is
_OF_TWO = frozenset({"corr", "covar_samp", "covar_pop"})


def is_aggregation(bound: BoundQuery) -> bool:
    return isinstance(bound.query, exp.Select) and bound.collected.contexts[0].aggregated


def aggregate_plan(bound: BoundQuery, state: CatalogState | None = None) -> AggregatePlan:
    """The question as slices of one stream, or NotCovered with the reason. `state`: it may read another query."""
    query, source = one_stream(bound, queries=state is not None)
    over_join = "aggregates over the results of a window join run as Spark SQL"
    read = read_selection(source, state, over_join) if state is not None else None
    table_id = read.table_id if read is not None else source.table.id if source.table is not None else 0
    context = bound.collected.contexts[0]
    window = source.window or EVERYTHING
    plan = plan_of_rows(bound, query, AggregateCalls(query, context.scope.panes))
    own = plan.own_windows
    if own and (plan.panes is not None or isinstance(window, RowsWindow)):
        raise NotCovered("an aggregate with a window of its own beside TUMBLE, SLIDE or LAST runs as Spark SQL")
    if own and all(own) and not context.windows.explicit:
        window = last(max(us for us in own if us is not None))
    static, stream = predicates(query)
    plan = replace(
        plan,
        table_id=table_id,
        aggregates=tuple(settled(call, plan.panes, window) for call in plan.aggregates),
        window=window,
        static_predicate=static,
        stream_predicate=stream,
        latch=UNREGISTERED if context.scope.latch is not None else None,
    )
    if context.scope.panes is not None and context.scope.panes.landmark is not None:
        if read is not None:
            raise NotCovered("LANDMARK over another query is not known")
        plan = with_landmarks(plan, context.scope.panes.landmark)
    if plan.latch is not None and plan.functions:
        raise NotCovered("a user aggregate would keep every state for ever")
    if plan.latch is not None and own:
        raise NotCovered("an aggregate with a window of its own forgets")
    if read is not None:
        if plan.latch is not None:
            raise NotCovered("a state without end over another query, whose rows come a cycle later, runs as Spark SQL")
        plan = read_through(plan, read, source.name)
    return without_functions(plan)


def with_landmarks(plan: AggregatePlan, condition: exp.Expr) -> AggregatePlan:
    """The plan with windows that begin at readings with a condition. Of these only the times are kept, beside the aggregates.

    Conditions of WHERE on sensors hold for them, too, so that both have the same NOW; conditions on readings do not.
    """
    if not isinstance(plan.window, TimeWindow):
        raise NotCovered("LANDMARK needs a window of time")
    if any(plan.own_windows) or plan.latch is not None or plan.has_series or plan.by or plan.unnest is not None:
        raise NotCovered("LANDMARK beside LATCH, mining functions or windows of aggregates' own is not known")
    if plan.is_approximate:
        raise NotCovered("approximate aggregates beside LANDMARK are not known")
    times = Type("ARRAY", element=TIMESTAMP)
    landmarks = AggregatePlan(
        table_id=plan.table_id,
        keys=(),
        aggregates=(AggregateCall("array_distinct", (Column(TIME_COLUMN, TIMESTAMP),), times),),
        outputs=(Output("times", times, Column(aggregate_name(0), times)),),
        window=plan.window,
        static_predicate=plan.static_predicate,
        stream_predicate=lower(condition),
    )
    return replace(plan, scalars=(ScalarSubquery(landmarks, True),), landmarks=True)


def plan_of_rows(bound: BoundQuery, query: exp.Select, taken: AggregateCalls) -> AggregatePlan:
    """What a SELECT asks of its rows, whatever these are: its table and window say nothing yet."""
    if query.args.get("windows"):
        raise NotCovered("a named window over aggregates runs as Spark SQL")
    refuse_distinct(query)
    having = query.args.get("having")
    outputs = tuple(
        Output(field.name, field.type, taken.output(place, item.this))
        for place, (field, item) in enumerate(zip(bound.fields, query.expressions, strict=True))
    )
    having = taken.lower(having.this) if having is not None else None
    qualify = query.args.get("qualify")
    qualify = taken.lower(qualify.this) if qualify is not None else None
    order = sorting_of(bound, taken.lower)
    return AggregatePlan(
        table_id=0,
        outputs=outputs,
        having=having,
        over=taken.all_windows(),
        qualify=qualify,
        sorted=order,
        keys=taken.lowered_keys(),
        aggregates=taken.all_calls(),
        window=EVERYTHING,
        panes=taken.panes,
        session_us=taken.session_us,
        own_windows=tuple(taken.own_windows) if any(taken.own_windows) else (),
        unnest=taken.unnest,
        by=taken.by,
    )


def without_functions(
    plan: AggregatePlan, reason: str = "aggregates with user functions run as Spark SQL"
) -> AggregatePlan:
    """The plan, or NotCovered where it calls users' functions."""
    found = [
        *plan.keys,
        *plan.by,
        *(a for call in plan.aggregates for a in call.arguments),
        *(o.expr for o in plan.outputs),
    ]
    found += [o.expr for o in plan.sorted.hidden] if plan.sorted is not None else []
    found += [e for e in (plan.static_predicate, plan.stream_predicate, plan.having, plan.qualify) if e is not None]
    found += parts_of(plan.over)
    if any(calls_user(e) for e in found):
        raise NotCovered(reason)
    return plan


class AggregateCalls:
    """The aggregates and keys of a SELECT, each once, and expressions over them."""

    def __init__(self, query: exp.Select, edges: PaneEdges | None) -> None:
        self.aggregates: list[AggregateCall] = []
        self.own_windows: list[int | None] = []
        self.keys: list[exp.Expr] = []
        self.by: tuple[Expr, ...] = ()
        self.windows = WindowCalls(self.lower)
        self.unnest: Expr | None = None  # the array whose elements rows come for
        self._edges = edges
        self.session_us = 0 if edges is None else edges.session_us
        fixed = edges is not None and edges.landmark is None
        self.panes = Panes(edges.width_us, edges.step_us) if edges is not None and fixed else None
        group = query.args.get("group")
        if group is None:
            return
        nested = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
        if any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets")) or group.find(*nested):
            raise NotCovered("grouping sets run as Spark SQL")
        self.keys = [key for key in group.expressions if edges is None or key != edges.key]
        if len(group.expressions) - len(self.keys) != (edges is not None):
            raise NotCovered("two windows in GROUP BY run as Spark SQL")

    def lowered_keys(self) -> tuple[Expr, ...]:
        keys = tuple(lower(key) for key in self.keys)
        if any(key.type.kind in ("ARRAY", "STRUCT") for key in keys):
            raise NotCovered("GROUP BY an array or a struct runs as Spark SQL")
        return keys

    def all_calls(self) -> tuple[AggregateCall, ...]:
        """At least one. The last one of sessions tells when the readings of a piece were."""
        if self._edges is None or not self.session_us:
            return tuple(self.aggregates) or (AggregateCall("count", (), BIGINT),)
        if any(isinstance(call.parameter, tuple) or call.options for call in self.aggregates):
            raise NotCovered("approximate aggregates and functions of series per session are not there")
        return (*self.aggregates, AggregateCall("min", (lower(self._edges.key.expressions[0]),), TIMESTAMP))

    def all_windows(self) -> tuple[WindowCall, ...]:
        """The window functions over the rows of the answer."""
        if self.windows.calls and self.unnest is not None:
            raise NotCovered("a window function beside UNNEST runs as Spark SQL")
        if any(
            node.name.startswith("scalar.")
            for e in parts_of(self.windows.calls)
            for node in walk(e)
            if isinstance(node, Column)
        ):
            raise NotCovered("a subquery inside a window function runs as Spark SQL")
        return tuple(self.windows.calls)

    def lower(self, node: exp.Expr) -> Expr:
        """The expression over keys, aggregates and window functions."""
        return lower(node.copy().transform(self._replaced, copy=False))

    def output(self, place: int, node: exp.Expr) -> Expr:
        """An item of the SELECT list."""
        return self.lower(node)

    def call(self, aggregate: exp.Expr, filtered: exp.Filter | None) -> AggregateCall:
        """What slices keep for an aggregate, with the FILTER around it."""
        return _aggregate(aggregate) if filtered is None else _filtered(aggregate, filtered)

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        if self._edges is not None and node == self._edges.start:
            return output_column(WINDOW_START, TIMESTAMP)
        if self._edges is not None and node == self._edges.end:
            return output_column(WINDOW_END, TIMESTAMP)
        if node in self.keys:
            return output_column(key_name(self.keys.index(node)), external(type_of(node)))
        if isinstance(node, exp.Subquery) and SCALAR in node.meta:
            return output_column(scalar_name(node.meta[SCALAR]), external(type_of(node)))
        if isinstance(node, exp.Window):
            return self.windows.replaced(node)
        if isinstance(node, Unnested):
            self.unnest = self.lower(node.this)
            return output_column(UNNESTED, external(type_of(node)))
        own = node.this if isinstance(node, exp.Filter) else node
        if isinstance(node, exp.Filter | OwnWindow | exp.WithinGroup) or is_aggregate(node):
            plain = own.this if isinstance(own, OwnWindow) else own
            self.by = by_of(plain) or self.by  # all calls have the same
            aggregate = self.call(plain, node if isinstance(node, exp.Filter) else None)
            call = (aggregate, own.us if isinstance(own, OwnWindow) else None)
            known = list(zip(self.aggregates, self.own_windows, strict=True))
            if call not in known:
                self.aggregates.append(aggregate)
                self.own_windows.append(call[1])
                known.append(call)
            return output_column(aggregate_name(known.index(call)), aggregate.type)
        return node


def _filtered(aggregate: exp.Expr, node: exp.Filter) -> AggregateCall:
    """FILTER (WHERE c): rows that do not satisfy c are NULL to the aggregate."""
    condition = lower(node.expression.this)
    if is_mining_call(aggregate):
        return mining_call(aggregate, condition)
    inner = _aggregate(aggregate)
    if inner.function in ("first", "last"):
        # NULL is a value to them, so which rows count is said beside it.
        counts = Call("coalesce", (condition, Literal(False, BOOLEAN)), BOOLEAN)
        return replace(inner, arguments=(*inner.arguments, counts))
    values = inner.arguments or (Literal(1, BIGINT),)
    arguments = tuple(Call("case", (condition, value, Literal(None, value.type)), value.type) for value in values)
    return replace(inner, arguments=arguments)


def _aggregate(node: exp.Expr) -> AggregateCall:
    if is_approximate_call(node):
        return approximate_call(node)
    if is_mining_call(node):
        return mining_call(node, None)
    if isinstance(node, exp.WithinGroup):
        return _in_order(node)
    if "code" in node.meta:
        given_values = tuple(lower(each) for each in node.expressions)
        return AggregateCall(node.name, given_values, external(type_of(node)), code=node.meta["code"])
    words = node.name if isinstance(node, exp.Anonymous) or not isinstance(node, exp.Func) else node.sql_name()
    words = words.upper()
    if words in ("PERCENTILE", "MEDIAN"):
        return _percentile(node, words)
    if words == "TWA" and len(node.expressions) == 1 and not isinstance(node.expressions[0], exp.Distinct):
        return AggregateCall("twa", (lower(node.expressions[0]),), external(type_of(node)))
    if isinstance(node, exp.CountIf):
        one = (Literal(1, BIGINT), Literal(None, BIGINT))
        return AggregateCall("count", (Call("case", (lower(node.this), *one), BIGINT),), BIGINT)
    function = _FUNCTIONS.get(type(node))
    if function is None:
        raise NotCovered(f"{words} runs as Spark SQL")
    if node.expressions or (node.args.get("expression") is not None and function not in _OF_TWO):
        raise NotCovered(f"{words} of several arguments runs as Spark SQL")
    given = node.this
    if isinstance(given, exp.Distinct):
        if function not in ("count", "sum", "avg", "min", "max") or len(given.expressions) != 1:
            raise NotCovered(f"{words}(DISTINCT ..) of this runs as Spark SQL")
        function = function if function in ("min", "max") else f"{function}_distinct"
        given = given.expressions[0]
    everything = function == "count" and (given is None or isinstance(given, exp.Star))
    arguments: tuple[Expr, ...] = () if everything else (lower(given),)
    if function in _OF_TWO:
        arguments = (*arguments, lower(node.expression))
    if function in ("avg", "avg_distinct") and arguments and type_of(node) == DURATION:
        raise NotCovered("AVG of an INTERVAL runs as Spark SQL")
    if partial_for(function, tuple(a.type for a in arguments)) is None:
        raise NotCovered(f"{words} of {arguments[0].type} runs as Spark SQL")
    return AggregateCall(function, arguments, external(type_of(node)))


def _in_order(node: exp.WithinGroup) -> AggregateCall:
    """PERCENTILE_DISC(p) and MODE() WITHIN GROUP (ORDER BY x)."""
    inner, keys = node.this, node.expression.expressions
    fraction = inner.this if isinstance(inner, exp.PercentileDisc) else None
    if len(keys) != 1 or not (isinstance(fraction, Const) or isinstance(inner, exp.Mode)):
        raise NotCovered("WITHIN GROUP runs as Spark SQL")
    x, backwards = lower(keys[0].this), "_desc" if keys[0].args.get("desc") else ""
    if fraction is None:
        if partial_for("mode", (x.type,)) is None:
            raise NotCovered(f"MODE of {x.type} runs as Spark SQL")
        return AggregateCall(f"mode{backwards}", (x,), external(type_of(node)))
    if x.type.kind not in ("INT", "BIGINT", "DOUBLE"):
        raise NotCovered(f"PERCENTILE_DISC of {x.type} runs as Spark SQL")
    # The same values as those of other percentiles.
    x = x if x.type == DOUBLE else Call("cast", (x,), DOUBLE)
    return AggregateCall(f"percentile_disc{backwards}", (x,), external(type_of(node)), float(fraction.value))


def _percentile(node: exp.Expr, words: str) -> AggregateCall:
    values = [node.this] if words == "MEDIAN" else node.expressions
    fraction = constant(0.5, DOUBLE) if words == "MEDIAN" else values[1] if len(values) == 2 else None
    if (
        not isinstance(fraction, Const)
        or not isinstance(fraction.value, int | float)
        or isinstance(values[0], exp.Distinct)
    ):
        raise NotCovered(f"{words} of anything but a value and a constant runs as Spark SQL")
    return AggregateCall("percentile", (lower(values[0]),), external(type_of(node)), float(fraction.value))


# -- approximate aggregates, as calls that slices answer

RECENT_US = 60_000_000
"""How long cells stay as fine as they came: a question about a cycle of a moment ago then reads little."""


def approximate_call(node: exp.Expr) -> AggregateCall:
    """`parameter` is what is special, the error and what else is special; `settled` adds how coarse cells may be."""
    value, *numbers = node.expressions
    arguments: tuple[Expr, ...] = () if isinstance(value, exp.Star) else (lower(value),)
    if approximate_for(node.name, tuple(a.type for a in arguments)) is None:
        raise NotCovered(f"{node.name.upper()} of {arguments[0].type} runs as Spark SQL, exactly")
    return AggregateCall(node.name, arguments, external(type_of(node)), tuple(number.value for number in numbers))


def settled(call: AggregateCall, panes: Panes | None, window: Window) -> AggregateCall:
    """The call with the width of panes, which no cell may cross, and how long cells stay fine."""
    if not isinstance(call.parameter, tuple):
        return call
    recent = RECENT_US  # over the newest rows nothing is kept that could grow
    if isinstance(window, TimeWindow):
        # Cells that END cuts have to be read, so none may be wide there.
        recent = RECENT_US - window.end.offset_us if window.end.anchor == "now" else FOREVER
    slot = 0 if panes is None else gcd(panes.width, panes.step)
    return replace(call, parameter=(*call.parameter, slot, max(RECENT_US, recent)))


# -- aggregates over another query: a select-project one is written out, so that its rows are sliced like any other's


def read_through(plan: AggregatePlan, read: SelectPlan, name: str) -> AggregatePlan:
    """An aggregation of the columns of a selection as one of the stream below, with the conditions of both.

    NOW is that of the selection's sensors, whatever the reader asks of its columns: those are conditions on readings.
    """
    plan = renamed(plan, read_columns(read))
    conditions = all_of((read.stream_predicate, plan.static_predicate, plan.stream_predicate))
    return replace(plan, static_predicate=read.static_predicate, stream_predicate=conditions, reads=name)


def renamed(plan: AggregatePlan, columns: Mapping[str, Expr]) -> AggregatePlan:
    """The same plan with what stands for each column."""
    aggregates = tuple(
        replace(call, arguments=tuple(substituted(a, columns) for a in call.arguments)) for call in plan.aggregates
    )
    for before, call in zip(plan.aggregates, aggregates, strict=True):
        types = tuple(a.type for a in call.arguments)
        if types != tuple(a.type for a in before.arguments) or (
            not call.options and partial_for(call.function, types) is None
        ):
            raise NotCovered("aggregates of a column that another query converts run as Spark SQL")
    static, stream = (
        None if condition is None else substituted(condition, columns)
        for condition in (plan.static_predicate, plan.stream_predicate)
    )
    keys, by = (tuple(substituted(key, columns) for key in each) for each in (plan.keys, plan.by))
    return replace(plan, keys=keys, by=by, aggregates=aggregates, static_predicate=static, stream_predicate=stream)
