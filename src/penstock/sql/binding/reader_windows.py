"""BEGIN and END of a question about a window join: they cut its answer by the time of its rows.

Asked once, the join is written out with a window of its own, which a reader cannot see into; so the reader's becomes
a condition there.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.expr.windows import FOREVER, Bound, RowsWindow, Window
from penstock.sql.binding.context import SelectContext
from penstock.sql.binding.window_joins import time_of
from penstock.sql.plan import JoinPlan
from penstock.sql.positions import point, span_of
from penstock.sql.values import DURATION, constant, typed
from penstock.types import BOOLEAN, TIMESTAMP


def cut_to_reader(inner: SelectContext, plan: JoinPlan, reader: SelectContext, window: Window) -> None:
    """Let the inlined join keep rows of the reader's window only."""
    if isinstance(window, RowsWindow):
        failure = error(
            "not_supported", feature="a window of rows over another query", hint="use BEGIN (NOW - d) END (NOW)"
        )
        raise point(failure, reader.text, span_of(reader.select.args.get("begin_end") or reader.select))
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
    if where is not None:
        grouped = typed(exp.Paren(this=where.this), BOOLEAN)
        condition = typed(exp.And(this=grouped, expression=condition), BOOLEAN)
    select.set("where", exp.Where(this=condition))
