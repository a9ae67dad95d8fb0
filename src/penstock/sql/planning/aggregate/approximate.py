"""Approximate aggregates of a bound question, as calls that slices answer."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from sqlglot import exp

from penstock.expr.expression import Expr
from penstock.expr.windows import FOREVER, TimeWindow, Window
from penstock.operators.aggregate.approximate.coarse_cells import LONGEST_US
from penstock.operators.aggregate.partials.cell_sums import Panes
from penstock.operators.aggregate.partials.registry import approximate_for
from penstock.sql.kernel_expressions import NotCovered, lower
from penstock.sql.nodes import WithinPercent
from penstock.sql.plan import AggregateCall
from penstock.sql.values import external, type_of

RECENT_US = 60_000_000
"""How long cells stay as fine as they came: a question about a cycle of a moment ago then reads little."""


def approximate_call(node: exp.Expr) -> AggregateCall:
    """`parameter` is what is special and the error; `settled` adds how coarse cells may be."""
    value, special, epsilon = node.expressions
    arguments: tuple[Expr, ...] = () if isinstance(value, exp.Star) else (lower(value),)
    if approximate_for(node.name, tuple(a.type for a in arguments)) is None:
        raise NotCovered(f"{node.name.upper()} of {arguments[0].type} runs as Spark SQL, exactly")
    return AggregateCall(node.name, arguments, external(type_of(node)), (special.value, epsilon.value))


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


APPROXIMATED = ("count", "sum", "avg")
"""Of MIN and MAX the values are kept, as without WITHIN."""
_SHARE_OF_WINDOW = 64
_RECENT_US = 10_000_000
"""How long cells stay seconds: a question about an older cycle reads some rows of the log."""

_OF_BAND = 4
"""Between two edges lies less than beyond one of them, and both are cut."""


def parameters(within: WithinPercent, outer: str, window: TimeWindow, band: bool) -> tuple[float, ...]:
    """What is promised, how fine buckets are, the widest slot and how long cells stay as fine as they came."""
    recent = _RECENT_US - window.end.offset_us if window.end.anchor == "now" else FOREVER
    fine = fineness(within.share, outer) / (_OF_BAND if band else 1)
    return within.share, fine, widest_us(window), max(_RECENT_US, recent)


def fineness(share: float, outer: str) -> float:
    """How much of what lies beyond a bucket it may hold. The middle of the bounds is off by half of the buckets that a cut goes
    through: one of each cell, and another for each time that cells were merged. An average has the doubt of a sum and of a count.
    """
    return share / (4 if outer == "avg" else 2)


def widest_us(window: TimeWindow) -> int:
    """The slot that BEGIN cuts is read from the log, so it is a small part of the window."""
    if not window.slides:
        return LONGEST_US
    return min(LONGEST_US, (window.end.offset_us - window.begin.offset_us) // _SHARE_OF_WINDOW)
