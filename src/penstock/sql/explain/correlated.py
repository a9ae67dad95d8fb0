"""Correlated aggregates as people read them."""

from __future__ import annotations

from penstock.expr.expression import Call, Expr, Literal
from penstock.operators.aggregate.approximate.within import WITHIN
from penstock.operators.aggregate.partials.correlated import PREFIX, Edge, edges_of
from penstock.sql.explain.notation import show
from penstock.sql.plan import AggregateCall, AggregatePlan

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def show_correlated(call: AggregateCall) -> str | None:
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


def show_picking(plan: AggregatePlan) -> list[str]:
    """What the inner aggregate of a plan with groups is about."""
    if plan.picking is None:
        return []
    keys = ", ".join(show(plan.keys[place]) for place in plan.picking.inner)
    return ["  subquery: " + (f"of the rows with the same {keys}" if keys else "of the rows of all groups")]


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


def promise(call: AggregateCall) -> str | None:
    """What WITHIN promises of a call; None where nothing is said of it."""
    if not call.function.startswith(WITHIN + " ") or not call.function.endswith(" value"):
        return None
    assert isinstance(call.parameter, tuple)
    share, fineness = call.parameter[:2]
    return (
        f"{show_correlated(call)}: within {100 * share:.3g} % of the truth, for certain; a bucket has at most"
        f" {100 * fineness:.3g} % of what lies beyond it, and where that leaves more doubt the rows are read from the log"
    )
