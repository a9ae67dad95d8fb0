"""A W-join read like a stream: its columns and, for each row, the latest and the earliest time of its tuples."""

from __future__ import annotations

from penstock.catalog.model import TIME_COLUMN
from penstock.expr.expression import Call, Column, Expr
from penstock.sql.binding.window_joins import EARLIEST_COLUMN
from penstock.sql.plan import JoinPlan, Output
from penstock.types import TIMESTAMP


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
