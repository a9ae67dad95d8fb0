"""Find a rollup's measure that can answer a requested measure: the same one, or another with the same information."""

from __future__ import annotations

from penstock.operators.aggregate.approximate.amounts import ApproxCount
from penstock.operators.aggregate.partials.base import Ints, State
from penstock.operators.aggregate.partials.registry import stands_for
from penstock.operators.aggregate.rollups.shape import Shape
from penstock.operators.aggregate.shape import Measure


def stand_in(asked: Measure, shape: Shape) -> Measure | None:
    """None where the rollup has nothing of the kind."""
    if asked in shape.measures:
        return asked
    same = [kept for kept in shape.measures if kept.arguments == asked.arguments]
    counted = "count" if asked.partial.startswith(ApproxCount.name + " ") else None
    return next((kept for kept in same if kept.partial == counted or stands_for(kept.partial, asked.partial)), None)


def as_asked(state: State, kept: Measure, asked: Measure, latest: Ints) -> State:
    """A stand-in's cells as the question's own; `latest` is when the last reading of each was."""
    if kept.partial != "count" or asked.partial == "count":
        return state
    # Exact counts are approximate ones of which nothing is cut.
    return {**asked.make().empty(len(latest)), "newest": latest, "count": state["count"]}
