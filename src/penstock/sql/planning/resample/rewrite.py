"""RESAMPLE: a value of one stream at each time of another, written out as SQL that Spark runs where `planner` does not cover it.

The stream of values is LEFT JOINed within the duration to the one that gives the times, and grouped by the latter's
readings. A condition of WHERE that names the resampled stream says which of its readings count; one that has a RESAMPLE is about the rows
of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from penstock.errors import error
from penstock.expr.windows import FOREVER, Bound, RowsWindow, TimeWindow
from penstock.sql.binding.context import Collected, SelectContext
from penstock.sql.bound_trees import call_of, conjuncts, hidden_column, time_of
from penstock.sql.nodes import Hold, Resample
from penstock.sql.scope import BoundSource
from penstock.sql.values import type_of, typed
from penstock.types import BIGINT, BOOLEAN, DOUBLE

_REFUSED = (("group", "GROUP BY"), ("having", "HAVING"), ("windows", "a window function"), ("window_joins", "WINDOW"))
_NESTED = "put it around: SELECT ... FROM (SELECT ... RESAMPLE(...) ...)"


def write_out_resamples(collected: Collected) -> bool:
    """Whether any SELECT resamples; those that do are written out."""
    found = False
    for context in collected.contexts:
        calls = _calls(context)
        if calls:
            _write_out(context, calls)
            found = True
    return found


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
    counted = [c for c in asked if not c.find(Resample) and _names(c, values)]
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


def _names(node: exp.Expr, source: BoundSource) -> bool:
    return any(column.meta.get("source") is source for column in node.find_all(exp.Column))


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
    low_time = _filtered(exp.Max(this=_micros(values)), value, before)
    high_time = _filtered(exp.Min(this=_micros(values)), value, after)
    at = call_of("any_value", _micros(times))
    share = exp.Div(
        this=_double(_paren(exp.Sub, at, low_time)), expression=_double(_paren(exp.Sub, high_time, low_time.copy()))
    )
    line = exp.Add(
        this=low.copy(),
        expression=exp.Mul(this=_paren(exp.Sub, high, low.copy()), expression=exp.Paren(this=share)),
    )
    exact = exp.If(this=exp.EQ(this=low_time.copy(), expression=at.copy()), true=low)
    return typed(exp.Case(ifs=[exact], default=line), DOUBLE)


def _filtered(aggregate: exp.Expr, value: exp.Expr, near: exp.Expr) -> exp.Expr:
    known = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
    return exp.Filter(this=aggregate, expression=exp.Where(this=exp.And(this=known, expression=near.copy())))


def _within(times: BoundSource, values: BoundSource, low: int, high: int) -> exp.Expr:
    """low <= values.ts - times.ts <= high, in microseconds."""
    apart = _paren(exp.Sub, _micros(values), _micros(times))
    above = exp.GTE(this=apart, expression=_number(low))
    return typed(exp.And(this=above, expression=exp.LTE(this=apart.copy(), expression=_number(high))), BOOLEAN)


def _micros(source: BoundSource) -> exp.Expr:
    return typed(call_of("unix_micros", time_of(source)), BIGINT)


def _double(value: exp.Expr) -> exp.Expr:
    return typed(exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.UNKNOWN)), DOUBLE)


def _paren(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=kind(this=left, expression=right))


def _number(value: int) -> exp.Expr:
    return exp.Neg(this=exp.Literal.number(-value)) if value < 0 else exp.Literal.number(value)


def _all_of(conditions: list[exp.Expr]) -> exp.Expr:
    whole: exp.Expr = exp.Paren(this=conditions[0].copy())
    for condition in conditions[1:]:
        whole = exp.And(this=whole, expression=exp.Paren(this=condition.copy()))
    return typed(whole, BOOLEAN)


def _refuse(context: SelectContext, node: exp.Expr, feature: str, hint: str) -> NoReturn:
    context.fail(node, error("not_supported", feature=feature, hint=hint))
