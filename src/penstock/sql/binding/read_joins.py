"""A W-join read like a stream: its columns and, for each row, the latest and the earliest time of its tuples."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import error
from penstock.expr.expression import Call, Column, Expr
from penstock.expr.windows import FOREVER, Bound, RowsWindow, Window
from penstock.sql.binding.context import SelectContext
from penstock.sql.binding.window_joins import EARLIEST_COLUMN
from penstock.sql.bound_trees import both, time_of
from penstock.sql.plan import JoinPlan, Output
from penstock.sql.values import DURATION, constant, typed
from penstock.types import BOOLEAN, TIMESTAMP


def read_outputs(plan: JoinPlan) -> tuple[Output, ...]:
    """What a reader of the query can name: its own columns, `ts`, and `ts_min` unless one of its own is called so."""
    latest, earliest = (Output(n, TIMESTAMP, _time(plan, how)) for n, how in _TIMES.items())
    own = tuple(o for o in plan.outputs if o.name != TIME_COLUMN)
    named = {o.name for o in own}
    # One stream's rows have one time.
    return (*own, latest) if EARLIEST_COLUMN in named or len(plan.inputs) == 1 else (*own, latest, earliest)


def tells_its_time(plan: JoinPlan) -> bool:
    """Whether `ts`, if the query has a column of that name, is the time of its rows."""
    return all(_same(o.expr, _time(plan, "greatest")) for o in plan.outputs if o.name == TIME_COLUMN)


_TIMES = {TIME_COLUMN: "greatest", EARLIEST_COLUMN: "least"}


def _time(plan: JoinPlan, how: str) -> Expr:
    # Of NOT EXISTS only the first stream's rows are answers.
    inputs = plan.inputs[:1] if plan.missing == "anti" else plan.inputs
    times = tuple(Column(f"{i.alias}.{TIME_COLUMN}", TIMESTAMP) for i in inputs)
    return times[0] if len(times) == 1 else Call(how, times, TIMESTAMP)


def _same(one: Expr, other: Expr) -> bool:
    match one, other:
        case Call(a, these), Call(b, those):
            return a == b and set(these) == set(those)
    return one == other


def cut_to_reader(inner: SelectContext, plan: JoinPlan, reader: SelectContext, window: Window) -> None:
    """Let the inlined join keep rows of the reader's window only.

    Asked once, the join is written out with a window of its own, which a reader cannot see into.
    """
    if isinstance(window, RowsWindow):
        failure = error(
            "not_supported", feature="a window of rows over another query", hint="use BEGIN (NOW - d) END (NOW)"
        )
        reader.fail(reader.select.args.get("begin_end") or reader.select, failure)
    named = plan.inputs[:1] if plan.missing == "anti" else plan.inputs
    times = [time_of(s) for i in named for s in inner.sources if s.alias == i.alias]
    for bound, compare in ((window.begin, exp.GTE), (window.end, exp.LTE)):
        if bound.anchor == "constant" and abs(bound.offset_us) >= FOREVER:
            continue
        first, *others = [time.copy() for time in times]
        latest = typed(exp.Greatest(this=first, expressions=others), TIMESTAMP) if others else first
        _add(inner.select, typed(compare(this=latest, expression=_moment(bound)), BOOLEAN))


def _moment(bound: Bound) -> exp.Expr:
    if bound.anchor == "constant":
        return constant(bound.offset_us, TIMESTAMP)
    now = typed(exp.CurrentTimestamp(), TIMESTAMP)
    if not bound.offset_us:
        return now
    return typed(exp.Sub(this=now, expression=constant(-bound.offset_us, DURATION)), TIMESTAMP)


def _add(select: exp.Select, condition: exp.Expr) -> None:
    where = select.args.get("where")
    grouped = None if where is None else typed(exp.Paren(this=where.this), BOOLEAN)
    select.set("where", exp.Where(this=both(grouped, condition)))
