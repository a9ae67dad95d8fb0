"""RESAMPLE: a value of one stream at each time of another -> Resampling, which the log answers, or SQL that Spark runs.

In Spark the stream of values is LEFT JOINed within the duration to the one that gives the times, and grouped by the latter's
readings. A condition of WHERE that names the resampled stream says which of its readings count; one that has a RESAMPLE is about the rows
of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, cast

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.errors import error
from penstock.expr.expression import Call, Column, Expr, calls_user, substituted
from penstock.expr.windows import FOREVER, Bound, RowsWindow, TimeWindow
from penstock.operators.resample.nearest import Method
from penstock.sql.binding.context import BoundQuery, Collected, SelectContext
from penstock.sql.bound_trees import call_of, conjuncts, hidden_column, micros_of, output_column, sources_in, time_of
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import Hold, Resample
from penstock.sql.plan import Output, Relation, ResampleCall, Resampling, SelectPlan, resample_name
from penstock.sql.planning.join.keys import EqualitySide, usable
from penstock.sql.planning.relations import all_of
from penstock.sql.planning.row_order import sorting_of
from penstock.sql.planning.selection import read_columns, read_selection
from penstock.sql.scope import BoundSource
from penstock.sql.values import external, type_of, typed
from penstock.types import BOOLEAN, DOUBLE


def resample_plan(bound: BoundQuery, state: CatalogState) -> Resampling:
    """The question as values found in the log of one stream, at the readings of another. Before it is written out for Spark.

    What is no question at all is not refused here but there.
    """
    query, contexts = bound.query, bound.collected.contexts
    if not isinstance(query, exp.Select) or len(contexts) > 1:
        raise NotCovered("RESAMPLE inside of another question runs as Spark SQL")
    if query.args.get("distinct"):
        raise NotCovered("RESAMPLE beside DISTINCT runs as Spark SQL")
    asked = asked_of(contexts[0])
    for source in (asked.times, asked.values):
        if not isinstance(source.window, TimeWindow):
            raise NotCovered("RESAMPLE over the newest rows runs as Spark SQL")
    taken = _Calls(asked.values)
    outputs = tuple(
        Output(field.name, field.type, taken.lower(item.this))
        for field, item in zip(bound.fields, query.expressions, strict=True)
    )
    having = all_of([taken.lower(condition) for condition in asked.having])
    alone, keys = _counted(asked)
    plan = Resampling(
        times=contexts[0].sources.index(asked.times),
        values=contexts[0].sources.index(asked.values),
        calls=tuple(taken.calls),
        outputs=outputs,
        times_predicate=all_of([lower(condition) for condition in asked.rest]),
        values_predicate=all_of(alone),
        keys=tuple(keys),
        having=having,
        sorted=sorting_of(bound),
    )
    plan = read_selections(plan, asked.times, asked.values, state)
    if any(calls_user(e) for e in _expressions(plan)):
        raise NotCovered("RESAMPLE beside a user's function runs as Spark SQL")
    return plan


def after_scans(plan: Resampling, relations: Sequence[Relation]) -> Resampling:
    """The same without the conditions that the initial scans of its streams decide."""
    return replace(
        plan,
        times_predicate=_without(plan.times_predicate, relations[plan.times].static_predicate),
        values_predicate=_without(plan.values_predicate, relations[plan.values].static_predicate),
    )


def _without(predicate: Expr | None, decided: Expr | None) -> Expr | None:
    known = _terms(decided)
    return all_of([term for term in _terms(predicate) if term not in known])


def _terms(predicate: Expr | None) -> list[Expr]:
    match predicate:
        case None:
            return []
        case Call("and", arguments):
            return list(arguments)
    return [predicate]


def _counted(asked: ResampleInputs) -> tuple[list[Expr], list[tuple[Expr, Expr]]]:
    """Which readings count: what they satisfy alone, and what they have in common with the one that gives the time."""
    alone: list[Expr] = []
    keys: list[tuple[Expr, Expr]] = []
    for condition in asked.counted:
        if sources_in(condition) == {asked.values}:
            alone.append(lower(condition))
        else:
            keys.append(_key(condition, asked))
    return alone, keys


def _key(condition: exp.Expr, asked: ResampleInputs) -> tuple[Expr, Expr]:
    if isinstance(condition, exp.EQ):
        sides = {}
        for side in (condition.this, condition.expression):
            owners = sources_in(side)
            if len(owners) == 1:
                sides[next(iter(owners))] = lower(side)
        if len(sides) == 2:
            ours, theirs = sides[asked.times], sides[asked.values]
            if usable((EqualitySide(0, ours), EqualitySide(1, theirs))) and ours.type == theirs.type:
                return ours, theirs
    raise NotCovered("RESAMPLE with a condition between both streams that is no equality runs as Spark SQL")


class _Calls:
    """The calls of RESAMPLE, each once, and expressions over them. Only the calls read `values`."""

    def __init__(self, values: BoundSource) -> None:
        self.calls: list[ResampleCall] = []
        self._values = values

    def lower(self, node: exp.Expr) -> Expr:
        return lower(node.copy().transform(self._replaced, copy=False))

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.meta.get("source") is self._values:
            raise NotCovered("a value outside of RESAMPLE is no question")
        if not isinstance(node, Resample):
            return node
        value = lower(node.this)
        if node.method != "previous" and value.type != DOUBLE:
            value = Call("cast", (value,), DOUBLE)
        call = ResampleCall(value, node.us, cast(Method, node.method), external(type_of(node)))
        if call not in self.calls:
            self.calls.append(call)
        name = resample_name(self.calls.index(call))
        return output_column(name, call.type)


def _expressions(plan: Resampling) -> list[Expr]:
    found = [o.expr for o in plan.outputs] + [c.value for c in plan.calls] + [e for pair in plan.keys for e in pair]
    return found + [e for e in (plan.times_predicate, plan.values_predicate, plan.having) if e is not None]


def read_selections(plan: Resampling, times: BoundSource, values: BoundSource, state: CatalogState) -> Resampling:
    """The plan in the columns of the tables, with the conditions of the queries that it reads beside its own."""
    read = _selection(times, state)
    if read is not None:
        columns = read_columns(read) | {
            resample_name(i): Column(resample_name(i), c.type) for i, c in enumerate(plan.calls)
        }
        plan = replace(
            plan,
            outputs=tuple(replace(o, expr=substituted(o.expr, columns)) for o in plan.outputs),
            having=None if plan.having is None else substituted(plan.having, columns),
            times_predicate=_both(read, plan.times_predicate, columns),
            keys=tuple((substituted(ours, columns), theirs) for ours, theirs in plan.keys),
        )
    read = _selection(values, state)
    if read is not None:
        columns = read_columns(read)
        plan = replace(
            plan,
            calls=tuple(replace(call, value=substituted(call.value, columns)) for call in plan.calls),
            values_predicate=_both(read, plan.values_predicate, columns),
            keys=tuple((ours, substituted(theirs, columns)) for ours, theirs in plan.keys),
        )
    return plan


def _selection(source: BoundSource, state: CatalogState) -> SelectPlan | None:
    """The selection that a source reads; None for a table."""
    over_join = "RESAMPLE of the results of a window join, or at their times, runs as Spark SQL"
    read = read_selection(source, state, over_join)
    if read is not None and any(output.expr.type != output.type for output in read.outputs):
        raise NotCovered("RESAMPLE of a column that another query converts runs as Spark SQL")
    return read


def _both(read: SelectPlan, own: Expr | None, columns: dict[str, Expr]) -> Expr | None:
    return all_of((None if own is None else substituted(own, columns), read.stream_predicate))


_REFUSED = (
    ("group", "GROUP BY"),
    ("having", "HAVING"),
    ("qualify", "QUALIFY"),
    ("windows", "a window function"),
    ("window_joins", "WINDOW"),
)
_NESTED = "put it around: SELECT ... FROM (SELECT ... RESAMPLE(...) ...)"


def write_out_resamples(collected: Collected) -> None:
    """Write out the SELECTs that resample."""
    for context in collected.contexts:
        calls = _calls(context)
        if calls:
            _write_out(context, calls)


def resamples(collected: Collected) -> bool:
    return any(_calls(context) for context in collected.contexts)


def _calls(context: SelectContext) -> list[Resample]:
    found = context.select.find_all(Resample, bfs=False)
    return [call for call in found if call.find_ancestor(exp.Select) is context.select]


@dataclass(frozen=True, slots=True)
class ResampleInputs:
    """The stream that gives the times, the stream of values, and the conditions by the stream that they are about.

    `counted` say which readings of the second count, `having` which rows are in the answer, `rest` is about the first.
    """

    times: BoundSource
    values: BoundSource
    counted: list[exp.Expr]
    having: list[exp.Expr]
    rest: list[exp.Expr]


def asked_of(context: SelectContext) -> ResampleInputs:
    """What a SELECT with RESAMPLE asks of which stream."""
    select = context.select
    times, values = _streams(context, _calls(context))
    asked = [c for join in select.args.get("joins") or [] for c in conjuncts(join.args.get("on"))]
    asked += conjuncts(select.args.get("where"))
    having = [c for c in asked if c.find(Resample)]
    counted = [c for c in asked if not c.find(Resample) and values in sources_in(c)]
    # By what they are: conditions of equal text may be about different things.
    taken = {id(c) for c in (*having, *counted)}
    return ResampleInputs(times, values, counted, having, [c for c in asked if id(c) not in taken])


def _write_out(context: SelectContext, calls: list[Resample]) -> None:
    select = context.select
    asked = asked_of(context)
    times, values, counted, having = asked.times, asked.values, asked.counted, asked.having
    _check(context, calls)
    for condition in counted:
        if condition.find(exp.Query):
            _refuse(context, condition, "a subquery about the stream that is resampled", "join it first, in a query")
        if condition.find(Hold):
            hint = "say it of the stream that gives the times, or leave FOR out"
            _refuse(context, condition, "a condition FOR some time on the stream that is resampled", hint)
    farthest = max(call.us for call in calls)
    near = [_within(times, values, -farthest, farthest)]
    _set_from(select, times, values, [*counted, *near])
    select.set("where", exp.Where(this=_all_of(asked.rest)) if asked.rest else None)
    outputs = [item.this for item in select.expressions]
    order = select.args.get("order")
    outputs += [item.this for item in order.expressions] if order is not None else []
    for node in outputs:
        node.replace(_grouped(context, node, times, values))
    select.set("group", exp.Group(expressions=[hidden_column(times, "_pos")]))
    if having:
        select.set("having", exp.Having(this=_all_of([_grouped(context, c, times, values) for c in having])))
    context.aggregated = True
    values.nullable = True
    values.window = _widened(context, values, farthest)


def _streams(context: SelectContext, calls: list[Resample]) -> tuple[BoundSource, BoundSource]:
    """The stream that gives the times, and the stream of values."""
    named = {id(c.meta["source"]): c.meta["source"] for call in calls for c in call.find_all(exp.Column)}
    streams = [s for s in context.sources if s.kind in ("sensors", "query")]
    if len(named) != 1 or not all(source in streams for source in named.values()):
        what = "a value of two streams" if len(named) > 1 else "a value that is of no stream"
        _refuse(context, calls[0], f"RESAMPLE of {what}", "name columns of one stream, one per SELECT")
    (values,) = named.values()
    others = [source for source in context.sources if source is not values]
    if len(others) != 1 or others[0] not in streams:
        hint = "FROM has two streams: the one whose times are asked for, and the one that is resampled"
        _refuse(context, calls[0], "RESAMPLE here", hint)
    return others[0], values


def _check(context: SelectContext, calls: list[Resample]) -> None:
    select = context.select
    for key, words in _REFUSED:
        if select.args.get(key):
            hint = "RESAMPLE says itself how far apart readings are" if key == "window_joins" else _NESTED
            _refuse(context, calls[0], f"RESAMPLE beside {words}", hint)
    if context.aggregated:
        _refuse(context, calls[0], "RESAMPLE beside an aggregate", _NESTED)
    if any((join.args.get("side") or "").upper() in ("RIGHT", "FULL") for join in select.args.get("joins") or []):
        _refuse(context, calls[0], "RESAMPLE in a RIGHT or FULL JOIN", "write FROM times t, values v")
    if isinstance(context.windows.everywhere, RowsWindow):
        _refuse(context, calls[0], "RESAMPLE over the newest rows", "use BEGIN (NOW - d) END (NOW)")


def _set_from(select: exp.Select, times: BoundSource, values: BoundSource, on: list[exp.Expr]) -> None:
    for source in (times, values):
        source.node.pop()
    condition = _all_of([c.copy() for c in on])
    select.set("from_", exp.From(this=times.node))
    select.set("joins", [exp.Join(this=values.node, side="LEFT", on=condition)])


def _widened(context: SelectContext, values: BoundSource, us: int) -> TimeWindow | RowsWindow | None:
    """BEGIN and END are about the times that are asked for: readings beside them count, too, unless FOR says otherwise."""
    window = values.window
    if not isinstance(window, TimeWindow) or values.alias in context.windows.by_alias:
        return window
    return TimeWindow(_moved(window.begin, -us), _moved(window.end, us))


def _moved(bound: Bound, us: int) -> Bound:
    forever = bound.anchor == "constant" and abs(bound.offset_us) >= FOREVER
    return bound if forever else Bound(bound.anchor, bound.offset_us + us)


# -- expressions of the rows of the answer


def _grouped(context: SelectContext, node: exp.Expr, times: BoundSource, values: BoundSource) -> exp.Expr:
    """An expression over one reading of `times` and the group of its neighbours."""
    if node.find(exp.Window, exp.Query):
        _refuse(context, node, "RESAMPLE beside a subquery or a window function", _NESTED)

    def one(part: exp.Expr) -> exp.Expr:
        if isinstance(part, Resample):
            return _resampled(part, times, values)
        if isinstance(part, exp.Column):
            if part.meta.get("source") is values:
                hint = f"at the times of {times.alias} it is RESAMPLE({values.alias}.{part.name}, 30 SECONDS)"
                _refuse(context, part, f"{values.alias}.{part.name} outside of RESAMPLE", hint)
            return typed(call_of("any_value", part.copy()), type_of(part))
        part = part.copy() if part.parent is None else part
        for child in list(part.iter_expressions()):
            child.replace(one(child))
        return part

    return one(node.copy())


def _resampled(call: Resample, times: BoundSource, values: BoundSource) -> exp.Expr:
    us, value = call.us, call.this
    if call.method == "mean":
        mean = typed(exp.Avg(this=_double(value)), DOUBLE)
        return typed(_filtered(mean, value, _within(times, values, -us, us)), DOUBLE)
    before, after = _within(times, values, -us, 0), _within(times, values, 0, us)
    position = hidden_column(values, "_pos")
    newest = call_of("struct", time_of(values), position)
    if call.method == "previous":
        return typed(_filtered(call_of("max_by", value.copy(), newest), value, before), type_of(call))
    # Of readings at the same time the last to come counts, on both sides.
    oldest = call_of("struct", time_of(values), exp.Neg(this=position.copy()))
    low = _filtered(call_of("max_by", _double(value), newest), value, before)
    high = _filtered(call_of("min_by", _double(value), oldest), value, after)
    low_time = _filtered(exp.Max(this=micros_of(time_of(values))), value, before)
    high_time = _filtered(exp.Min(this=micros_of(time_of(values))), value, after)
    at = call_of("any_value", micros_of(time_of(times)))
    share = exp.Div(
        this=_double(_paren(exp.Sub, at, low_time)), expression=_double(_paren(exp.Sub, high_time, low_time.copy()))
    )
    line = exp.Add(
        this=low.copy(), expression=exp.Mul(this=_paren(exp.Sub, high, low.copy()), expression=exp.Paren(this=share))
    )
    exact = exp.If(this=exp.EQ(this=low_time.copy(), expression=at.copy()), true=low)
    return typed(exp.Case(ifs=[exact], default=line), DOUBLE)


def _filtered(aggregate: exp.Expr, value: exp.Expr, near: exp.Expr) -> exp.Expr:
    known = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
    return exp.Filter(this=aggregate, expression=exp.Where(this=exp.And(this=known, expression=near.copy())))


def _within(times: BoundSource, values: BoundSource, low: int, high: int) -> exp.Expr:
    """low <= values.ts - times.ts <= high, in microseconds."""
    apart = _paren(exp.Sub, micros_of(time_of(values)), micros_of(time_of(times)))
    above = exp.GTE(this=apart, expression=exp.Literal.number(low))
    return typed(
        exp.And(this=above, expression=exp.LTE(this=apart.copy(), expression=exp.Literal.number(high))), BOOLEAN
    )


def _double(value: exp.Expr) -> exp.Expr:
    return typed(exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.UNKNOWN)), DOUBLE)


def _paren(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=kind(this=left, expression=right))


def _all_of(conditions: list[exp.Expr]) -> exp.Expr:
    whole: exp.Expr = exp.Paren(this=conditions[0].copy())
    for condition in conditions[1:]:
        whole = exp.And(this=whole, expression=exp.Paren(this=condition.copy()))
    return typed(whole, BOOLEAN)


def _refuse(context: SelectContext, node: exp.Expr, feature: str, hint: str) -> NoReturn:
    context.fail(node, error("not_supported", feature=feature, hint=hint))
