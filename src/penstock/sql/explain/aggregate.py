"""How an aggregation runs, one fact a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.catalog.state import CatalogState
from penstock.expr.expression import Call, Expr, Literal
from penstock.operators.aggregate.approximate.within import WITHIN
from penstock.operators.aggregate.partials.correlated import PREFIX, Edge, edges_of
from penstock.operators.mining.registry import FUNCTIONS, SLOT_FUNCTIONS
from penstock.sql.binding.approximate import ERROR
from penstock.sql.explain.join import join_lines
from penstock.sql.explain.notation import show, show_conditions, show_output, show_window, show_window_call
from penstock.sql.plan import (
    UNNESTED,
    AggregateCall,
    AggregatePlan,
    JoinAggregatePlan,
    Relation,
    aggregate_name,
    key_name,
    scalar_name,
)
from penstock.sql.plan.output import Sorted
from penstock.sql.plan.window_calls import window_name
from penstock.sql.planning.aggregate.mining import length_us
from penstock.types import format_duration


def aggregate_lines(plan: AggregatePlan, state: CatalogState) -> list[str]:
    table = state.tables_by_id[plan.table_id].name
    how = "approximate" if plan.is_approximate else "exact"
    return [
        f'slices of the stream of "{table}", {how}',
        f"  window: {show_window(plan.window)}",
        *_lines(plan, show_conditions(plan.static_predicate, plan.stream_predicate)),
        *_scalar_lines(plan, state),
    ]


def join_aggregate_lines(plan: JoinAggregatePlan, state: CatalogState) -> list[str]:
    below = [f"  {line}" for line in join_lines(plan.join, state)]
    joined = "a stream joined with tables" if len(plan.join.inputs) == 1 else "a window join"
    asked = [*_lines(plan.top, []), *_scalar_lines(plan.top, state)]
    return [f"slices of the results of {joined}, exact", *asked, *below]


def _scalar_lines(plan: AggregatePlan, state: CatalogState) -> list[str]:
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
        names[aggregate_name(place)] = _correlated(call) or show_call(call)
    for place, over in enumerate(plan.over):
        names[window_name(place)] = _named(show_window_call(over), names)
    if plan.unnest is not None:
        names[UNNESTED] = f"unnest({_named(show(plan.unnest), names)})"
    names |= {scalar_name(place): f"({_subquery(place)})" for place in range(len(plan.scalars))}
    if plan.reads is not None:
        lines.append(f'  read through query "{plan.reads}": its rows, one cycle later')
    if plan.latch is not None:
        lines.append("  latch: rows count for ever, also after retention has taken them")
    if plan.session_us:
        lines.append(f"  sessions: readings of a group at most {format_duration(plan.session_us)} apart")
    elif plan.panes is not None:
        width, step = format_duration(plan.panes.width), format_duration(plan.panes.step)
        lines.append(f"  panes: {width}" + ("" if width == step else f", every {step}"))
    if plan.landmarks:
        condition = plan.scalars[0].plan.stream_predicate
        lines.append(f"  landmarks: a window begins at each reading with {show(condition) if condition else 'true'}")
    for place, own in enumerate(plan.own_windows):
        if own is not None:
            lines.append(f"  window of {names[aggregate_name(place)]}: the last {format_duration(own)} of it")
    lines += [f"  {line}" for line in conditions]
    keys = plan.keys if plan.picking is None else plan.keys[: plan.picking.outer]
    lines.append("  groups: " + (", ".join(show(key) for key in keys) or "one"))
    lines += [f"  sequences: one per {show(key)} of a group" for key in plan.by]
    lines += _picking_lines(plan)
    lines.append("  aggregates: " + ", ".join(names[aggregate_name(i)] for i in range(len(plan.aggregates))))
    lines += [*_promise_lines(plan), *_series_lines(plan)]
    if plan.unnest is not None:
        lines.append(f"  rows: one per element of {_named(show(plan.unnest), names)}")
    if plan.having is not None:
        lines.append("  having: " + _named(show(plan.having), names))
    if plan.qualify is not None:
        lines.append("  qualify: " + _named(show(plan.qualify), names))
    if plan.sorted is not None and plan.sorted.distinct:
        lines.append("  distinct: rows that are alike come once")
    if plan.sorted is not None and (plan.sorted.order or plan.sorted.limit is not None or plan.sorted.offset):
        by = [o.name for o in plan.outputs] + [_named(show(o.expr), names) for o in plan.sorted.hidden]
        lines.append("  sorted: " + show_sorted(plan.sorted, by))
    shown = (show_output(o, _named(show(o.expr), names)) for o in plan.outputs)
    return [*lines, f"  output: {', '.join(shown)}"]


def show_sorted(asked: Sorted, names: Sequence[str]) -> str:
    order = ", ".join(names[item.output] + " DESC" * item.descending for item in asked.order)
    limit = "" if asked.limit is None else f", {asked.limit} rows"
    return (order or "as they come") + limit + (f" after the first {asked.offset}" if asked.offset else "")


def _named(text: str, names: dict[str, str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text


# -- approximate aggregates: their bounds, and how sure those are

_PROMISES = {
    "approx_count": "within {0} of the truth, for certain",
    "approx_sum": "within {0} of the sum of absolute values, for certain",
    "approx_avg": "within {0} of the mean of absolute values, for certain",
    "approx_distinct": "within {0} of the truth in 99.7 % of all cases",
    "approx_percentile": "within {0} of the rows, by rank, in 99 % of all cases",
    "approx_top_k": "counts within {0} of the rows, for certain",
    "approx_norm": "within {0} of the truth in 99.7 % of all cases",
    "approx_histogram": "each count within {0} of the truth, for certain",
}
_SPECIAL = ("approx_percentile", "approx_top_k", "approx_norm", "approx_histogram")


def _parameter(call: AggregateCall) -> str:
    """What a call says beside its value."""
    if call.parameter is None:
        return ""
    if not isinstance(call.parameter, tuple):
        return f", {call.parameter!r}"
    special, epsilon, *more = call.parameter
    said = [f"{edge:g}" for edge in more[:-2]]
    said += [f"{special:g}"] if call.function.removesuffix(ERROR) in _SPECIAL else []
    said += [] if call.function.startswith("approx_top_k") else [f"{epsilon:g}"]
    return "".join(f", {each}" for each in said)


def show_call(call: AggregateCall) -> str:
    """An aggregate as EXPLAIN writes it."""
    if call.options:
        return f"{call.function}({', '.join(map(_plain, _values(call)))}{_options(call)})"
    arguments = ", ".join(show(a) for a in call.arguments) or "*"
    return f"{call.function}({arguments}{_parameter(call)})"


def _values(call: AggregateCall) -> Sequence[Expr]:
    """What a mining function works on. The argument behind the value of a series is whether it counts."""
    return call.arguments if FUNCTIONS[call.function].takes == "points" else call.arguments[:1]


def _plain(value: Expr) -> str:
    """A value that is NULL where it does not count."""
    match value:
        case Call("case", (_, counted, Literal(None))):
            return show(counted)
    return show(value)


def _options(call: AggregateCall) -> str:
    """The named arguments that are not as usual, lengths of time as durations."""
    parameters, said = {p.name: p for p in FUNCTIONS[call.function].parameters}, []
    for name, value in call.options:
        kind = parameters[name].kind
        if value in (None, parameters[name].default):
            continue
        timed = kind == "duration" or (kind == "elements" and call.every_us)
        us = int(value) * (call.every_us if kind == "elements" else 1) if timed else 0
        shown = format_duration(us) if timed else _shown(value)
        said.append(f", {name} {shown}")
    return "".join(said)


_FEW = 10
"""So many numbers of an array are shown."""


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        few = [f"{each:g}" for each in value[:_FEW]]
        return "[" + ", ".join(few) + f", .. {len(value)} numbers" * (len(value) > _FEW) + "]"
    return str(value).lower() if isinstance(value, bool | str) else f"{value:g}"


def _series_lines(plan: AggregatePlan) -> list[str]:
    """A line per series that is kept, and one per function that says when its results change."""
    kept: dict[str, None] = {}
    calls = [call for call in plan.aggregates if call.options]
    for place, call in enumerate(plan.aggregates):
        if not call.options:
            continue
        values, options = ", ".join(map(_plain, _values(call))), dict(call.options)
        if call.every_us:
            word = str(options["slot"])
            slot = SLOT_FUNCTIONS.get(word, word).upper()
            own_us = plan.own_windows[place] if plan.own_windows else None
            span_us = own_us or (length_us(plan.window) if plan.panes is None else plan.panes.width)
            most = "" if span_us is None else f", at most {span_us // call.every_us} a group"
            kept[f"  series: {slot}({values}) every {format_duration(call.every_us)}, whole slots{most}"] = None
        elif FUNCTIONS[call.function].takes == "points":
            kept[f"  sample: ({values}) of at most {options['sample']} rows a group"] = None
        else:
            kept[f"  series: {values}, each reading"] = None
    notes = {f"  {show_call(c)}: {FUNCTIONS[c.function].note_of(dict(c.options))}": None for c in calls}
    return [*kept, *(line for line in notes if not line.endswith(": "))]


def _promise_lines(plan: AggregatePlan) -> list[str]:
    """A line per approximate aggregate."""
    lines = []
    for call in plan.aggregates:
        if not isinstance(call.parameter, tuple) or call.function.endswith(ERROR):
            continue
        if _correlated(call) is not None:
            lines += _correlated_promise(call, call.parameter)
            continue
        promised = _PROMISES[call.function].format(f"{100 * call.parameter[1]:.3g} %")
        lines.append(f"  error: {show_call(call)}: {promised}")
    return lines


# -- correlated aggregates

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def _correlated(call: AggregateCall) -> str | None:
    """`SUM(cost) where duration >= 0.9 * MAX(duration)`; None for other calls."""
    prefix, *said = call.function.split(" ")
    if prefix not in (PREFIX, WITHIN):
        return None
    outer, inner, *words = said
    says = words.pop() if prefix == WITHIN else "value"
    of, x, y, seen = call.arguments
    outer_of = "" if isinstance(y, Literal) else f"({show(y)})"
    edges = [_show_edge(edge, show(x), _show_inner(inner.upper(), of)) for edge in edges_of(words)]
    beside = [] if isinstance(seen, Literal) else [show(seen)]
    bound = f"{says} bound of " if says != "value" else ""
    return f"{bound}{outer.upper()}{outer_of} where {' and '.join([*edges, *beside])}"


def _picking_lines(plan: AggregatePlan) -> list[str]:
    """What the inner aggregate of a plan with groups is about."""
    if plan.picking is None:
        return []
    keys = ", ".join(show(plan.keys[place]) for place in plan.picking.inner)
    about = f"of the rows with the same {keys}" if keys else "of the rows of all groups"
    return [f"  subquery: {about}" + (", in the same window of GROUP BY" if plan.picking.per_window else "")]


def _show_inner(inner: str, of: Expr) -> str:
    """`MAX(duration)`, perhaps of some rows only: then the others are NULL."""
    match of:
        case Call("case", (condition, value, Literal(None))):
            return f"{inner}({show(value)}) FILTER (WHERE {show(condition)})"
    return f"{inner}({show(of)})"


def _show_edge(edge: Edge, x: str, inner: str) -> str:
    number = edge.constant
    size = str(abs(number)) if isinstance(number, int) else f"{abs(number):g}"
    signed = f"-{size}" if number < 0 else size
    if edge.how == "off":
        return f"ABS({x} - {inner}) {_SIGNS[edge.comparison]} {signed}"
    if edge.how.startswith("add"):
        inner += f" {'-' if number < 0 else '+'} {size}"
    elif number != 1:
        inner = f"{signed} * {inner}"
    return f"{x} {_SIGNS[edge.comparison]} {inner}"


def _correlated_promise(call: AggregateCall, parameter: tuple[float, ...]) -> list[str]:
    """What WITHIN promises of a call, if it is not one of the bounds."""
    if not call.function.startswith(WITHIN + " ") or not call.function.endswith(" value"):
        return []
    share, fineness = parameter[:2]
    return [
        f"  error: {_correlated(call)}: within {100 * share:.3g} % of the truth, for certain; a bucket has at most"
        f" {100 * fineness:.3g} % of what lies beyond it, and where that leaves more doubt the rows are read from the log"
    ]
