"""Ripple join and XJoin adapted to windows, as the papers compare with: no order in time, a purge every 10 000 tuples.

They run on the same compiled search as the window joins and count the same things. A new tuple is tested against every
buffered tuple (ripple) or every one in its bucket (XJoin), too old or not; what is too old goes at the next purge.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.joins.bounds import Bounds
from penstock.operators.joins.conditions import Conditions
from penstock.operators.joins.family import evaluate_backward
from penstock.operators.joins.registry import Algorithm
from penstock.operators.joins.search import TEST_ALL
from penstock.operators.joins.sides import Counters, Int64s, Side

PURGE_EVERY = 10_000


def run_ripple(
    sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters
) -> list[Int64s]:
    """Nested loops over whole buffers."""
    return evaluate_backward(
        sides, bounds, conditions, counters, chained=False, windows=TEST_ALL, purge_every=PURGE_EVERY
    )


def run_xjoin(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """Whole hash buckets."""
    return evaluate_backward(
        sides, bounds, conditions, counters, chained=True, windows=TEST_ALL, purge_every=PURGE_EVERY
    )


BASELINES = {
    "ripple": Algorithm("ripple", "ripple join with a purge every 10 000 tuples", run_ripple),
    "xjoin": Algorithm("xjoin", "XJoin with a purge every 10 000 tuples", run_xjoin, needs_key=True),
}
