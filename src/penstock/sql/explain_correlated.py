"""Correlated aggregates as people read them."""

from __future__ import annotations

from penstock.operators.expr import Literal
from penstock.operators.slices.correlated import PREFIX
from penstock.sql.notation import show
from penstock.sql.plan import AggregateCall

_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def show_correlated(call: AggregateCall) -> str | None:
    """`SUM(cost) where duration >= 0.9 * MAX(duration)`; None for other calls."""
    if not call.function.startswith(PREFIX + " "):
        return None
    _, outer, inner, comparison, how, constant = call.function.split(" ")
    of, x, y, seen = call.arguments
    outer_of = "" if isinstance(y, Literal) else f"({show(y)})"
    threshold = f"{inner.upper()}({show(of)})"
    number = float(constant)
    if how == "add":
        threshold += f" {'-' if number < 0 else '+'} {abs(number):g}"
    elif number != 1:
        threshold = f"{number:g} * {threshold}"
    beside = "" if isinstance(seen, Literal) else f" and {show(seen)}"
    return f"{outer.upper()}{outer_of} where {show(x)} {_SIGNS[comparison]} {threshold}{beside}"
