"""How an aggregation runs, one fact a line."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.explain.approximate import promise_lines, show_parameter
from penstock.sql.explain.correlated import show_correlated, show_picking
from penstock.sql.explain.join import join_lines
from penstock.sql.explain.notation import show, show_conditions, show_window
from penstock.sql.plan import (
    AggregatePlan,
    JoinAggregatePlan,
    Relation,
    aggregate_name,
    key_name,
    scalar_name,
)
from penstock.sql.plan.output import Sorted
from penstock.sql.scope import SqlCatalog
from penstock.types import format_duration


def aggregate_lines(plan: AggregatePlan, state: SqlCatalog) -> list[str]:
    table = state.tables_by_id[plan.table_id].name
    how = "approximate" if plan.is_approximate else "exact"
    return [
        f'slices of the stream of "{table}", {how}',
        f"  window: {show_window(plan.window)}",
        *_lines(plan, show_conditions(plan.static_predicate, plan.stream_predicate)),
        *_scalar_lines(plan, state),
    ]


def join_aggregate_lines(plan: JoinAggregatePlan, state: SqlCatalog) -> list[str]:
    below = [f"  {line}" for line in join_lines(plan.join, state)]
    joined = "a stream joined with tables" if len(plan.join.inputs) == 1 else "a window join"
    asked = [*_lines(plan.top, []), *_scalar_lines(plan.top, state)]
    return [f"slices of the results of {joined}, exact", *asked, *below]


def _scalar_lines(plan: AggregatePlan, state: SqlCatalog) -> list[str]:
    """The subqueries that are values, each as a question of its own."""
    lines = []
    for place, scalar in enumerate(plan.scalars):
        first, window, *rest = aggregate_lines(scalar.plan, state)
        window = "  window: that of the question" if scalar.inherits else window
        lines += [
            f"  {_subquery(place)}, one value at the same NOW: {first}",
            *(f"  {line}" for line in (window, *rest)),
        ]
    return lines


def _subquery(place: int) -> str:
    return f"subquery {place + 1}"


def reader_lines(top: AggregatePlan, reads: Relation) -> list[str]:
    """Of a query that reads another one's results."""
    lines = [f'slices of the results of query "{reads.table}", a join, exact: its rows, one cycle later']
    if reads.window is not None:
        lines.append(f"  window: {show_window(reads.window)}")
    conditions = [] if top.stream_predicate is None else [f"conditions: {show(top.stream_predicate)}"]
    return [*lines, *_lines(top, conditions)]


def _lines(plan: AggregatePlan, conditions: list[str]) -> list[str]:
    """What is asked, whatever the rows are."""
    lines = []
    names = {key_name(i): show(key) for i, key in enumerate(plan.keys)}
    for place, call in enumerate(plan.aggregates):
        arguments = ", ".join(show(a) for a in call.arguments) or "*"
        plain = f"{call.function}({arguments}{show_parameter(call)})"
        names[aggregate_name(place)] = show_correlated(call) or plain
    names |= {scalar_name(place): f"({_subquery(place)})" for place in range(len(plan.scalars))}
    if plan.reads is not None:
        lines.append(f'  read through query "{plan.reads}": its rows, one cycle later')
    if plan.latch is not None:
        lines.append("  latch: rows count for ever, also after retention has taken them")
    if plan.panes is not None:
        width, step = format_duration(plan.panes.width), format_duration(plan.panes.step)
        lines.append(f"  panes: {width}" + ("" if width == step else f", every {step}"))
    for place, own in enumerate(plan.own_windows):
        if own is not None:
            lines.append(f"  window of {names[aggregate_name(place)]}: the last {format_duration(own)} of it")
    lines += [f"  {line}" for line in conditions]
    keys = plan.keys if plan.picking is None else plan.keys[: plan.picking.outer]
    lines.append("  groups: " + (", ".join(show(key) for key in keys) or "one"))
    lines += show_picking(plan)
    lines.append("  aggregates: " + ", ".join(names[aggregate_name(i)] for i in range(len(plan.aggregates))))
    lines += promise_lines(plan)
    if plan.having is not None:
        lines.append("  having: " + _named(show(plan.having), names))
    if plan.sorted is not None and plan.sorted.distinct:
        lines.append("  distinct: rows that are alike come once")
    if plan.sorted is not None and (plan.sorted.order or plan.sorted.limit is not None or plan.sorted.offset):
        by = [o.name for o in plan.outputs] + [_named(show(o.expr), names) for o in plan.sorted.hidden]
        lines.append("  sorted: " + show_sorted(plan.sorted, by))
    shown = ((o.name, str(o.type), _named(show(o.expr), names)) for o in plan.outputs)
    lines.append("  output: " + ", ".join(f"{n} {t}" if n == e else f"{n} {t} = {e}" for n, t, e in shown))
    return lines


def show_sorted(asked: Sorted, names: Sequence[str]) -> str:
    order = ", ".join(names[item.output] + " DESC" * item.descending for item in asked.order)
    limit = "" if asked.limit is None else f", {asked.limit} rows"
    return (order or "as they come") + limit + (f" after the first {asked.offset}" if asked.offset else "")


def _named(text: str, names: dict[str, str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text
