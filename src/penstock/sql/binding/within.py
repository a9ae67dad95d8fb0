"""WITHIN n PERCENT: where it may stand, and the columns of its bounds."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import error
from penstock.sql.binding.context import BoundQuery
from penstock.sql.binding.names import output_name
from penstock.sql.nodes import WithinPercent
from penstock.sql.positions import point, span_of

_BOUNDS = "penstock.bounds"


def write_out_bounds(select: exp.Select) -> None:
    """WITH BOUNDS: two more columns for each that is an aggregate, so far the same as it. Exact answers are their own bounds."""
    within = select.args.get("within")
    if not isinstance(within, WithinPercent) or not within.args.get("bounds"):
        return
    said = {}
    for item in list(select.expressions):
        if not isinstance(item.unalias(), exp.AggFunc):
            continue
        for which in ("lower", "upper"):
            said[len(select.expressions)] = which
            extra = exp.alias_(item.unalias().copy(), f"{output_name(item)}_{which}", quoted=True)
            select.append("expressions", extra)
    select.meta[_BOUNDS] = said


def says(select: exp.Query, place: int) -> str:
    """What a column of the answer says of its aggregate: the value, or one of its bounds."""
    found: str = select.meta.get(_BOUNDS, {}).get(place, "value")
    return found


def check_within(bound: BoundQuery) -> None:
    """Refuse WITHIN where there is no correlated aggregate; exact answers keep it, too."""
    contexts = bound.collected.contexts
    for context in contexts:
        within = context.select.args.get("within")
        if not isinstance(within, WithinPercent) or context.inlined:
            continue
        correlated = context.aggregated and any(c.role == "scalar" and c.aggregated for c in contexts)
        if context.role != "top" or not correlated:
            hint = (
                "it stands behind aggregates of the rows that a subquery picks; APPROX_COUNT, APPROX_SUM have an error"
            )
            raise point(
                error("not_supported", feature="WITHIN n PERCENT here", hint=hint), context.text, span_of(within)
            )
