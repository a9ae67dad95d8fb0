"""What the papers compare with: ripple join and XJoin adapted to windows, with a purge every 10 000 tuples; NLW as printed.

They run on the same compiled search as the window joins and count the same things. Ripple join and XJoin know no order in
time: a new tuple is tested against every buffered tuple (ripple) or every one in its bucket (XJoin), too old or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.papers.conditions import Conditions
from penstock.operators.join.papers.registry import Algorithm, evaluate_backward
from penstock.operators.join.papers.search import TEST_ALL, SearchOptions
from penstock.operators.join.papers.sides import Counters, Int64s, Side

PURGE_EVERY = 10_000


def run_ripple(
    sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters
) -> list[Int64s]:
    """Nested loops over whole buffers."""
    options = SearchOptions(chained=False, windows=TEST_ALL)
    return evaluate_backward(sides, bounds, conditions, counters, options, purge_every=PURGE_EVERY)


def run_xjoin(sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters) -> list[Int64s]:
    """Whole hash buckets."""
    options = SearchOptions(chained=True, windows=TEST_ALL)
    return evaluate_backward(sides, bounds, conditions, counters, options, purge_every=PURGE_EVERY)


def run_nested_loop_in_order(
    sides: Sequence[Side], bounds: Bounds, conditions: Conditions | None, counters: Counters
) -> list[Int64s]:
    """The papers' NLW-join: ours, but streams are searched as FROM lists them, not the rarest first."""
    return evaluate_backward(sides, bounds, conditions, counters, SearchOptions(chained=False, rarest_first=False))


BASELINES = {
    "nested_loop_in_order": Algorithm(
        "nested_loop_in_order", "NLW-join in the order of FROM, as the papers have it", run_nested_loop_in_order
    ),
    "ripple": Algorithm("ripple", "ripple join with a purge every 10 000 tuples", run_ripple),
    "xjoin": Algorithm("xjoin", "XJoin with a purge every 10 000 tuples", run_xjoin, needs_key=True),
}
